"""The data of the task `pretraining`: masked pairs of texts, for two phases of training."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Any, Literal

from models.cross_entropy import IGNORED
from sweeper.store.errors import UserError
from sweeper.store.files import publish_json
from tasks.batch import Batch, of_arrays
from tasks.config.schema import Problem, whole
from tasks.config.sections import RowsSection, WordPieceSection
from tasks.data import PreparedData
from tasks.pretraining.documents import (
    ABOUT,
    FEWEST,
    FORMAT,
    EncodedDocuments,
    Library,
    SplitDocuments,
    encode,
)
from tasks.pretraining.pairs import MaskedPairs
from tasks.text.source import SPLITS, note_lines
from tasks.text.tokenizer import tokenizer_at, train_wordpiece


class PhaseSection(RowsSection):
    """The section `task.second_phase`, with the row length, batch size and warm-up of this phase.

    With `steps=0`, there is no second phase.
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
    """The section `task` of pre-training, as in conf/task/pretraining.yaml."""

    documents: Literal["blank_line", "file"]
    sequence_length: Annotated[int, whole(8, 65_536, 128)]
    second_phase: PhaseSection

    def phase_of(self, step: int, steps: int) -> tuple[int, int]:
        """Return the phase of a step, 0 or 1, and the step's number within that phase, from 1.

        Args:
            step: the number of the step within both phases, from 1.
            steps: the number of steps of both phases together.
        """
        first = steps - self.second_phase.steps
        later = step > first
        return int(later), step - first * later


# The number of positions in an evaluation batch. It is small, so that the logits fit into memory.
EVALUATED = 16_384
EVALUATION_SEED = 0  # fixed, so that every run is evaluated on the same pairs and masks


class MaskedDocuments(PreparedData):
    """Batches of masked pairs of texts. M is the largest number of masked positions in a row.

    A batch has the keys:

    - tokens, token_type_ids, attention_mask: (B, T).
    - places: (B, M), the masked positions.
    - targets: (B, M), the tokens to predict at `places`. If a row has fewer than M masked
      positions, its last targets are IGNORED.
    - next: (B,), 1 if the second text of a row is random, else 0.
    """

    section: PretrainingSection
    kind, format = "documents", FORMAT
    published = Library()
    shaping = ("vocabulary_size", "tokenizer_lines", "documents")

    def make(self, folder: Path) -> None:
        section = self.section
        name, train, test = self.published.texts(self.text, folder / "sample")
        # Each row on the hub is one document. In generated text, a blank line ends a document.
        rules = {"hub": "file", "sample": "blank_line"}
        rule = rules.get(self.text["source"], section.documents)
        with TemporaryFile(dir=folder) as file:
            documents = SplitDocuments(name, train, test, rule, file)
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
        note_lines(name, counts)
        for split, total in totals.items():
            if total["documents"] < FEWEST:
                raise UserError(
                    f"{name} has fewer than {FEWEST} documents in the split {split}; add more text."
                )
            about = {
                "format": FORMAT,
                "split": split,
                "vocabulary_size": tokenizer.get_vocab_size(),
                **total,
                "lines": counts.total,
                "skipped": counts.skipped,
                "repaired": counts.repaired,
            }
            publish_json(folder / split / ABOUT, about)

    def open(self, folder: Path) -> None:
        splits = {split: EncodedDocuments(folder / split) for split in SPLITS}
        train, seed = splits["train"], self.config.seed
        length = self.section.sequence_length
        later_length = self.section.second_phase.sequence_length
        self._phases = [
            MaskedPairs(train, length, seed, "first phase"),
            MaskedPairs(train, later_length, seed, "second phase"),
        ]
        self._measured = {
            split: MaskedPairs(splits[split], length, EVALUATION_SEED, split)
            for split in ("validation", "test")
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
