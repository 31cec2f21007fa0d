"""BERT's pre-training: masked language modelling and next-sentence prediction.

Source: the paper, section 4.1 and appendix C.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from models.bert_heads import PretrainingModel
from models.cross_entropy import IGNORED
from sweeper.store.errors import UserError, invalid_value
from sweeper.store.files import publish_json
from tasks.architectures.encoder import EncoderSection
from tasks.batch import Batch, of_arrays
from tasks.config.schema import Problem, whole
from tasks.config.sections import ENDS_AT_0, RowsSection, WordPieceSection
from tasks.data import PreparedData
from tasks.module import TaskModule
from tasks.pretraining.documents import (
    ABOUT,
    FEWEST,
    FORMAT,
    EncodedDocuments,
    Library,
    SplitDocuments,
    encode,
)
from tasks.pretraining.pairs import MaskedPairs, predictions
from tasks.schedule import learning_rate
from tasks.text.source import SPLITS, note_lines
from tasks.text.tokenizer import tokenizer_at, train_wordpiece


class PhaseSection(RowsSection):
    """The keys of the second phase, which has longer rows and its own warm-up.

    `steps=0` turns the second phase off.
    """

    steps: Annotated[int, whole(0, 10**9, 50_000)]
    sequence_length: Annotated[int, whole(8, 65_536, 512)]
    batch_tokens: Annotated[int, whole(1, 2**31, 524_288)]
    warmup_steps: Annotated[int, whole(0, 10**9, 3_000)]

    def problems(self, path: str = "") -> Iterator[Problem]:
        yield from super().problems(path)
        if self.steps and self.warmup_steps >= self.steps:
            expected = f"fewer than {path}.steps={self.steps}"
            remedy = f"set {path}.warmup_steps={self.steps // 10}"
            yield Problem(f"{path}.warmup_steps", self.warmup_steps, expected, remedy)


class PretrainingSection(WordPieceSection):
    """The keys of conf/task/pretraining.yaml."""

    documents: Literal["blank_line", "file"]
    sequence_length: Annotated[int, whole(8, 65_536, 128)]
    second_phase: PhaseSection

    def phase_of(self, step: int, steps: int) -> tuple[int, int]:
        """Return the phase of `step`, 0 or 1, and the step's number within that phase, from 1.

        Args:
            steps: the number of steps of both phases together.
        """
        first = steps - self.second_phase.steps
        later = step > first
        return int(later), step - first * later


# The number of positions in a batch for evaluation. Their logits must fit into memory.
EVALUATED = 16_384
EVALUATION_SEED = 0  # fixed, so that every run is evaluated on the same pairs and masks


class MaskedDocuments(PreparedData):
    """Batches of masked pairs of texts.

    The arrays tokens, token_type_ids and attention_mask have the shape (B, T). The arrays places
    and targets have the positions and the pieces to predict, (B, M). The array next, (B,), is 1 if
    the second text is random.
    """

    section: PretrainingSection
    kind, format = "documents", FORMAT
    published = Library()
    shaping = ("vocabulary_size", "tokenizer_lines", "documents")

    def make(self, folder: Path) -> None:
        section = self.section
        found = self.published.open(self.text, section.documents, folder / "sample")
        with TemporaryFile(dir=folder) as file:
            documents = SplitDocuments(found, file)
            lines = (
                line
                for split, text in documents
                if split == "train"
                for line in text.decode().split("\n")
            )
            tokenizer = tokenizer_at(folder, train_wordpiece, lines, section)
            into = {split: folder / split for split in SPLITS}
            totals = encode(documents, tokenizer, into)

        counts = documents.counts
        note_lines(found.name, counts)
        noted = {
            "lines": counts.total,
            "skipped": counts.skipped,
            "repaired": counts.repaired,
        }
        for split, total in totals.items():
            if total["documents"] < FEWEST:
                raise UserError(
                    f"{found.name} has fewer than {FEWEST} documents in the split {split}; add "
                    "more text."
                )
            of_it = {"split": split, "vocabulary_size": tokenizer.get_vocab_size()}
            about = {"format": FORMAT, **of_it, **total, **noted}
            publish_json(folder / split / ABOUT, about)

    def open(self, folder: Path) -> dict[str, Any]:
        splits = {split: EncodedDocuments(folder / split) for split in SPLITS}
        section, seed = self.section, self.config.seed
        self._phases = [
            MaskedPairs(splits["train"], phase.sequence_length, seed, purpose)
            for purpose, phase in (
                ("first phase", section),
                ("second phase", section.second_phase),
            )
        ]
        self._measured = {
            split: MaskedPairs(
                splits[split], section.sequence_length, EVALUATION_SEED, split
            )
            for split in ("validation", "test")
        }
        about = {split: encoded.about for split, encoded in splits.items()}
        counts = ("documents", "sentences", "pieces")
        return {
            **{
                f"{split}_{key}": about[split][key]
                for split in SPLITS
                for key in counts
            },
            "rows_per_epoch": len(self._phases[0]),
            **{key: about["train"][key] for key in ("skipped", "repaired")},
        }

    def batch(self, step: int) -> Batch:
        phase, step = self.section.phase_of(step, self.config.trainer.steps)
        section = self.section.second_phase if phase else self.section
        rows = section.batch_tokens // section.sequence_length
        return _tensors(self._phases[phase].shuffled((step - 1) * rows, rows))

    def batches(self, split: str) -> Iterator[Batch]:
        examples = self._measured[split]
        rows = max(EVALUATED // self.section.sequence_length, 1)
        for first in range(0, len(examples), rows):
            yield _tensors(examples.ordered(first, min(rows, len(examples) - first)))

    def tokens_seen(self, steps: int) -> int:
        first = min(steps, self.config.trainer.steps - self.section.second_phase.steps)
        rest = (steps - first) * self.section.second_phase.batch_tokens
        return first * self.section.batch_tokens + rest


def _tensors(arrays: Mapping[str, Any]) -> Batch:
    batch = of_arrays(arrays)
    batch["targets"].masked_fill_(~batch.pop("hidden"), IGNORED)
    return batch


class MaskedLanguageModel(TaskModule):
    """Pre-training: predict masked pieces, and whether a row's second text follows the first."""

    Section = PretrainingSection
    section: PretrainingSection
    Data = MaskedDocuments
    model: PretrainingModel
    architectures = ("encoder",)
    labels = ("targets", "next")
    measured = (
        "test/loss",
        "test/mlm_loss",
        "test/mlm_accuracy",
        "test/nsp_loss",
        "test/nsp_accuracy",
    )

    def build(self) -> PretrainingModel:
        architecture = self.config.model
        assert isinstance(architecture, EncoderSection)
        self._check(architecture)
        model = PretrainingModel(architecture.build(self.section.vocabulary_size))
        for head in (model.pooler, model.masked_tokens, model.next_sentence):
            architecture.widen(head)
        return model

    def _check(self, architecture: EncoderSection) -> None:
        """Raise UserError if the phases do not fit the trainer, the schedule or the model."""
        trainer, optimizer = self.config.trainer, self.config.optimizer
        second = self.section.second_phase
        if self._first_steps < 1:
            key = "task.second_phase.steps"
            expected = (
                f"fewer than trainer.steps={trainer.steps}, which both phases share"
            )
            remedy = f"lower it, or set {key}=0"
            raise invalid_value(key, second.steps, expected, remedy)

        warmup = optimizer.warmup_steps
        if optimizer.schedule in ENDS_AT_0 and warmup >= self._first_steps:
            expected = f"fewer than the {self._first_steps} steps of the first phase"
            raise invalid_value("optimizer.warmup_steps", warmup, expected, "lower it")

        longest = max(
            self.section.sequence_length, second.sequence_length * (second.steps > 0)
        )
        if architecture.positions < longest:
            expected = f"at least {longest}, the length of the longest row"
            remedy = f"set model.positions={longest}"
            raise invalid_value(
                "model.positions", architecture.positions, expected, remedy
            )

    @property
    def _first_steps(self) -> int:
        return self.config.trainer.steps - self.section.second_phase.steps

    def example(self) -> Batch:
        length = self.section.sequence_length
        zeros = torch.zeros(1, length, dtype=torch.long)
        hidden = torch.zeros(1, predictions(length), dtype=torch.long)
        row = {"tokens": zeros, "token_type_ids": zeros, "attention_mask": zeros.bool()}
        return {**row, "places": hidden, "targets": hidden, "next": zeros[:, 0]}

    def forward(self, batch: Batch) -> Tensor:
        hidden_BTD = self._hidden(batch)
        tokens_BMV = self.model.token_logits(hidden_BTD, batch["places"])
        return torch.cat(
            (tokens_BMV.flatten(1), self.model.next_logits(hidden_BTD)), dim=1
        )

    def totals(self, batch: Batch) -> tuple[Tensor, ...]:
        hidden_BTD = self._hidden(batch)
        masked, _ = self.model.token_loss(hidden_BTD, batch["places"], batch["targets"])
        next_B2 = self.model.next_logits(hidden_BTD).float()
        return masked, F.cross_entropy(next_B2, batch["next"], reduction="sum")

    def counts(self, batch: Batch) -> tuple[Tensor | int, ...]:
        return (batch["targets"] != IGNORED).sum(), len(batch["next"])

    def learning_rate(self, step: int) -> float:
        """Return the learning rate of a step. Each phase has its own complete schedule."""
        optimizer, steps = self.config.optimizer, self._first_steps
        phase, step = self.section.phase_of(step, self.config.trainer.steps)
        if phase:
            steps = self.section.second_phase.steps
            warmup = {"warmup_steps": self.section.second_phase.warmup_steps}
            optimizer = optimizer.model_copy(update=warmup)
        return learning_rate(optimizer, steps, step)

    def score(self, batch: Batch) -> dict[str, Tensor]:
        hidden_BTD, targets_BM = self._hidden(batch), batch["targets"]
        logits_BMV = self.model.token_logits(hidden_BTD, batch["places"])
        logits_NV, targets_N = logits_BMV.flatten(0, 1).float(), targets_BM.flatten()
        next_B2 = self.model.next_logits(hidden_BTD).float()
        return {
            "mlm_nats": F.cross_entropy(logits_NV, targets_N, reduction="sum"),
            "mlm_right": (logits_NV.argmax(-1) == targets_N).sum(),
            "masked": (targets_N != IGNORED).sum(),
            "nsp_nats": F.cross_entropy(next_B2, batch["next"], reduction="sum"),
            "nsp_right": (next_B2.argmax(-1) == batch["next"]).sum(),
            "random_next": batch["next"].sum(),
            "rows": torch.tensor(len(next_B2)),
        }

    def metrics(self, split: str, sums: Mapping[str, float]) -> dict[str, float]:
        masked, rows = sums["masked"], sums["rows"]
        majority = max(sums["random_next"], rows - sums["random_next"]) / rows
        mlm_loss, nsp_loss = sums["mlm_nats"] / masked, sums["nsp_nats"] / rows
        return {
            f"{split}/loss": mlm_loss + nsp_loss,
            f"{split}/mlm_loss": mlm_loss,
            f"{split}/mlm_accuracy": sums["mlm_right"] / masked,
            f"{split}/nsp_loss": nsp_loss,
            f"{split}/nsp_accuracy": sums["nsp_right"] / rows,
            f"{split}/majority_nsp_accuracy": majority,
        }

    def _hidden(self, batch: Batch) -> Tensor:
        return self.model(
            batch["tokens"], batch["token_type_ids"], batch["attention_mask"]
        )
