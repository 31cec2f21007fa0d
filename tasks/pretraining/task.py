"""BERT's pre-training: masked tokens and the next sentence (paper, section 4.1 and appendix C)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from models.bert_heads import PretrainingModel
from models.cross_entropy import IGNORED
from sweeper.store.errors import wrong
from tasks import learning_rate
from tasks.architectures.encoder import EncoderSection
from tasks.batch import Batch, repeated
from tasks.config.schema import Problem, Section, given, whole
from tasks.config.sections import RunConfig, TextSection
from tasks.pretraining import documents
from tasks.pretraining.encoded import EncodedDocuments
from tasks.pretraining.masked_pairs import MaskedPairs
from tasks.pretraining.masking import predictions
from tasks.pretraining.prepare import DocumentSettings, folder_name, prepare
from tasks.task import Mean, Task
from tasks.text.corpus import SPLITS
from tasks.text.tokenizer import BERT_MARKS, LARGEST_VOCABULARY

EVALUATED = 16_384  # positions of a batch of evaluation: its logits are all there at once
EVALUATION_SEED = 0  # every run is measured on the same pairs under the same masks


class PhaseSection(Section):
    """The end of training on longer rows, with a warm-up of its own; steps=0: there is none."""

    steps: Annotated[int, whole(0, 10**9, 50_000)]
    sequence_length: Annotated[int, whole(8, 65_536, 512)]
    batch_tokens: Annotated[int, whole(1, 2**31, 524_288)]
    warmup_steps: Annotated[int, whole(0, 10**9, 3_000)]

    def problems(self, path: str) -> Iterator[Problem]:
        yield from _partial_rows(path, self.batch_tokens, self.sequence_length)
        if self.steps and self.warmup_steps >= self.steps:
            expected = f"fewer than {path}.steps={self.steps}"
            remedy = f"give it as {path}.warmup_steps={self.steps // 10}"
            yield Problem(f"{path}.warmup_steps", self.warmup_steps, expected, remedy)


class PretrainingSection(TextSection):
    """The keys of conf/task/pretraining.yaml."""

    vocabulary_size: Annotated[int, whole(len(BERT_MARKS) + 2, LARGEST_VOCABULARY, 30_522)]
    tokenizer_lines: Annotated[int, whole(1, 10**9, 1_000_000)]
    documents: Annotated[
        Literal["blank_line", "file"], given("one of blank_line, file", "blank_line")
    ]
    sequence_length: Annotated[int, whole(8, 65_536, 128)]
    second_phase: PhaseSection

    def problems(self, path: str) -> Iterator[Problem]:
        yield from _partial_rows(path, self.batch_tokens, self.sequence_length)
        yield from self.second_phase.problems(f"{path}.second_phase")


class Pretraining(Task):
    """Restores masked pieces, and tells whether the second text of a row follows the first.

    Batches are rows of pairs: tokens, types and real, (B, T); places and targets of the masked
    pieces, (B, M); next, (B,).
    """

    Section = PretrainingSection
    architectures = ("encoder",)

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        assert isinstance(config.task, PretrainingSection)
        self.section = config.task
        self._first_steps = config.trainer.steps - self.section.second_phase.steps
        self._check()
        self._text = config.data.model_dump()

    def build(self) -> PretrainingModel:
        architecture = self.config.model
        assert isinstance(architecture, EncoderSection)
        model = PretrainingModel(architecture.build(self.section.vocabulary_size))
        for head in (model.pooler, model.masked_tokens, model.next_sentence):
            architecture.widen(head)
        return model

    def example(self) -> Batch:
        return self._row(self.section.sequence_length)

    def training_batches(self) -> tuple[Batch, ...]:
        phases = (self.section, self.section.second_phase)[
            : 1 + bool(self.section.second_phase.steps)
        ]
        return tuple(
            repeated(self._row(of.sequence_length), of.batch_tokens // of.sequence_length)
            for of in phases
        )

    def evaluation_batch(self) -> Batch:
        return repeated(self.example(), EVALUATED // self.section.sequence_length)

    def _row(self, length: int) -> Batch:
        zeros = torch.zeros(1, length, dtype=torch.long)
        hidden = torch.zeros(1, predictions(length), dtype=torch.long)
        row = {"tokens": zeros, "types": zeros, "real": zeros.bool()}
        return {**row, "places": hidden, "targets": hidden, "next": zeros[:, 0]}

    def positions(self, batch: Batch) -> int:
        return batch["tokens"].numel()

    def outputs(self, model: PretrainingModel, batch: Batch) -> Tensor:
        hidden_BTD = _hidden(model, batch)
        tokens_BMV = model.token_logits(hidden_BTD, batch["places"])
        return torch.cat((tokens_BMV.flatten(1), model.next_logits(hidden_BTD)), dim=1)

    def source(self) -> tuple[str, str]:
        return documents.digest(self._text), documents.describe(self._text)

    def data_name(self) -> str:
        return folder_name(self._text["digest"] or documents.digest(self._text), self._settings())

    def prepare(self, folder: Path) -> None:
        prepare(folder, self._text, self._settings())

    def open(self, folder: Path) -> dict[str, Any]:
        splits = {split: EncodedDocuments(folder / split) for split in SPLITS}
        section, seed = self.section, self.config.seed
        self._phases = [
            MaskedPairs(splits["train"], length, seed, purpose)
            for purpose, length in (
                ("first phase", section.sequence_length),
                ("second phase", section.second_phase.sequence_length),
            )
        ]
        self._measured = {
            split: MaskedPairs(splits[split], section.sequence_length, EVALUATION_SEED, split)
            for split in ("validation", "test")
        }
        about = {split: encoded.about for split, encoded in splits.items()}
        counts = ("documents", "sentences", "pieces")
        return {
            **{f"{split}_{key}": about[split][key] for split in SPLITS for key in counts},
            "rows_per_epoch": len(self._phases[0]),
            "skipped": about["train"]["skipped"],
        }

    def batch(self, step: int) -> Batch:
        phase, step = self._phase_of(step)
        of = self.section.second_phase if phase else self.section
        rows = of.batch_tokens // of.sequence_length
        return _tensors(self._phases[phase].shuffled((step - 1) * rows, rows))

    def batches(self, split: str) -> Iterator[Batch]:
        examples = self._measured[split]
        rows = max(EVALUATED // self.section.sequence_length, 1)
        for first in range(0, len(examples), rows):
            yield _tensors(examples.ordered(first, min(rows, len(examples) - first)))

    def loss(self, model: PretrainingModel, batch: Batch) -> tuple[Mean, ...]:
        hidden_BTD = _hidden(model, batch)
        masked = model.token_loss(hidden_BTD, batch["places"], batch["targets"])
        next_B2 = model.next_logits(hidden_BTD).float()
        following = F.cross_entropy(next_B2, batch["next"], reduction="sum")
        return Mean(*masked), Mean(following, len(next_B2))

    def learning_rate(self, step: int) -> float:
        """Return the rate of a step; each phase runs through a whole schedule of its own."""
        optimizer, steps = self.config.optimizer, self._first_steps
        phase, step = self._phase_of(step)
        if phase:
            steps = self.section.second_phase.steps
            warmup = {"warmup_steps": self.section.second_phase.warmup_steps}
            optimizer = optimizer.model_copy(update=warmup)
        return learning_rate.learning_rate(optimizer, steps, step)

    def tokens_seen(self, steps: int) -> int:
        first = min(steps, self._first_steps)
        rest = (steps - first) * self.section.second_phase.batch_tokens
        return first * self.section.batch_tokens + rest

    def score(self, model: PretrainingModel, batch: Batch) -> dict[str, Tensor]:
        hidden_BTD, targets_BM = _hidden(model, batch), batch["targets"]
        logits_NV = model.token_logits(hidden_BTD, batch["places"]).flatten(0, 1).float()
        next_B2 = model.next_logits(hidden_BTD).float()
        targets_N = targets_BM.flatten()
        return {
            "mlm_nats": F.cross_entropy(logits_NV, targets_N, reduction="sum"),
            "mlm_right": (logits_NV.argmax(-1) == targets_N).sum(),
            "masked": (targets_N != IGNORED).sum(),
            "nsp_nats": F.cross_entropy(next_B2, batch["next"], reduction="sum"),
            "nsp_right": (next_B2.argmax(-1) == batch["next"]).sum(),
            "rows": torch.tensor(len(next_B2)),
        }

    def metrics(self, split: str, totals: Mapping[str, float]) -> dict[str, float]:
        masked, rows = totals["masked"], totals["rows"]
        mlm_loss, nsp_loss = totals["mlm_nats"] / masked, totals["nsp_nats"] / rows
        return {
            f"{split}/loss": mlm_loss + nsp_loss,
            f"{split}/mlm_loss": mlm_loss,
            f"{split}/mlm_accuracy": totals["mlm_right"] / masked,
            f"{split}/nsp_loss": nsp_loss,
            f"{split}/nsp_accuracy": totals["nsp_right"] / rows,
        }

    def _settings(self) -> DocumentSettings:
        section = self.section
        return DocumentSettings(section.vocabulary_size, section.tokenizer_lines, section.documents)

    def _phase_of(self, step: int) -> tuple[int, int]:
        """Return the phase (0 or 1) of a step and its number within the phase, from 1."""
        later = step > self._first_steps
        return int(later), step - self._first_steps * later

    def _check(self) -> None:
        """Raise UserError for keys of different sections that do not go together."""
        trainer, optimizer = self.config.trainer, self.config.optimizer
        second = self.section.second_phase
        if self._first_steps < 1:
            expected = f"fewer than trainer.steps={trainer.steps}, which counts both phases"
            raise wrong("task.second_phase.steps", second.steps, expected, "lower it, or give 0")
        if optimizer.schedule == "linear" and optimizer.warmup_steps >= self._first_steps:
            expected = f"fewer than the first phase's {self._first_steps} steps"
            raise wrong("optimizer.warmup_steps", optimizer.warmup_steps, expected, "lower it")
        longest = max(self.section.sequence_length, second.sequence_length * (second.steps > 0))
        assert isinstance(self.config.model, EncoderSection)
        positions = self.config.model.positions
        if positions < longest:
            remedy = f"give it as model.positions={longest}"
            raise wrong("model.positions", positions, f"at least the {longest} of a row", remedy)


def _partial_rows(path: str, batch_tokens: int, sequence_length: int) -> Iterator[Problem]:
    if batch_tokens % sequence_length:
        whole_rows = max(batch_tokens // sequence_length, 1) * sequence_length
        expected = f"a multiple of {path}.sequence_length={sequence_length}"
        remedy = f"give it as {path}.batch_tokens={whole_rows}"
        yield Problem(f"{path}.batch_tokens", batch_tokens, expected, remedy)


def _hidden(model: PretrainingModel, batch: Batch) -> Tensor:
    hidden_BTD: Tensor = model(batch["tokens"], batch["types"], batch["real"])
    return hidden_BTD


def _tensors(arrays: Mapping[str, Any]) -> Batch:
    batch = {key: torch.from_numpy(array) for key, array in arrays.items()}
    batch["targets"].masked_fill_(~batch.pop("hidden"), IGNORED)
    return batch
