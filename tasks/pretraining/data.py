"""The config section and the batches of pre-training, in two phases."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Any, Literal

import torch

from models.cross_entropy import IGNORED
from sweeper.store.errors import UserError
from tasks.batch import Batch
from tasks.config.schema import Problem, whole
from tasks.config.sections import RowsSection, TextSection
from tasks.data import PreparedData
from tasks.pretraining.documents import (
    ABOUT,
    FEWEST,
    FORMAT,
    EncodedDocuments,
    Library,
    SplitDocuments,
    encode,
    publish_about,
)
from tasks.pretraining.pairs import MaskedPairs
from tasks.text.encoding import Encoder
from tasks.text.source import SPLITS
from tasks.text.tokenizer import (
    BERT_MARKS,
    LARGEST_VOCABULARY,
    load_tokenizer,
    sample_of,
    save_tokenizer,
    train_wordpiece,
)


class PhaseSection(RowsSection):
    """The end of training on longer rows, with a warm-up of its own; steps=0: there is none."""

    steps: Annotated[int, whole(0, 10**9, 50_000)]
    sequence_length: Annotated[int, whole(8, 65_536, 512)]
    batch_tokens: Annotated[int, whole(1, 2**31, 524_288)]
    warmup_steps: Annotated[int, whole(0, 10**9, 3_000)]

    def problems(self, path: str = "") -> Iterator[Problem]:
        yield from super().problems(path)
        if self.steps and self.warmup_steps >= self.steps:
            expected = f"fewer than {path}.steps={self.steps}"
            remedy = f"give it as {path}.warmup_steps={self.steps // 10}"
            yield Problem(f"{path}.warmup_steps", self.warmup_steps, expected, remedy)


class PretrainingSection(TextSection):
    """The keys of conf/task/pretraining.yaml."""

    vocabulary_size: Annotated[int, whole(len(BERT_MARKS) + 2, LARGEST_VOCABULARY, 30_522)]
    tokenizer_lines: Annotated[int, whole(1, 10**9, 1_000_000)]
    documents: Literal["blank_line", "file"]
    sequence_length: Annotated[int, whole(8, 65_536, 128)]
    second_phase: PhaseSection

    def phase_of(self, step: int, steps: int) -> tuple[int, int]:
        """Return the phase (0 or 1) of one of `steps` steps, and its number within it, from 1."""
        first = steps - self.second_phase.steps
        later = step > first
        return int(later), step - first * later


EVALUATED = 16_384  # positions of a batch of evaluation: its logits are all there at once
EVALUATION_SEED = 0  # every run is measured on the same pairs under the same masks


class MaskedDocuments(PreparedData):
    """Batches are rows of pairs: tokens, token_type_ids and attention_mask, (B, T); places and
    targets of the masked pieces, (B, M); next, (B,).
    """

    section: PretrainingSection
    kind, format, last = "documents", FORMAT, ABOUT
    published = Library()
    shaping = ("vocabulary_size", "tokenizer_lines", "documents")

    def make(self, folder: Path) -> None:
        section, path = self.section, folder / "tokenizer.json"
        found = self.published.open(self.text, section.documents, folder / "sample")
        with TemporaryFile(dir=folder) as file:
            documents = SplitDocuments(found, file)
            if not path.exists():
                train = (text.decode().split("\n") for split, text in documents if split == "train")
                lines = sample_of(itertools.chain.from_iterable(train), section.tokenizer_lines)
                save_tokenizer(train_wordpiece(lines, section.vocabulary_size), path)
            tokenizer = load_tokenizer(path)
            into = {split: folder / split for split in SPLITS}
            totals = encode(documents, Encoder(tokenizer), into)
        counts = documents.counts
        noted = {"lines": counts.total, "skipped": counts.skipped, "repaired": counts.repaired}
        for split, total in totals.items():
            if total["documents"] < FEWEST:
                raise UserError(
                    f"{found.name} has {total['documents']} documents in the split {split}; "
                    "give it more text."
                )
            of_it = {"split": split, "vocabulary_size": tokenizer.get_vocab_size()}
            publish_about(folder / split, {**of_it, **total, **noted})

    def open(self, folder: Path) -> dict[str, Any]:
        splits = {split: EncodedDocuments(folder / split) for split in SPLITS}
        section, seed = self.section, self.config.seed
        self._phases = [
            MaskedPairs(splits["train"], phase.sequence_length, seed, purpose)
            for purpose, phase in (("first phase", section), ("second phase", section.second_phase))
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

    def part(self, step: int, span: Callable[[int], tuple[int, int]]) -> Batch:
        phase, step = self.section.phase_of(step, self.config.trainer.steps)
        section = self.section.second_phase if phase else self.section
        rows = section.batch_tokens // section.sequence_length
        first, last = span(rows)
        return _tensors(self._phases[phase].shuffled((step - 1) * rows + first, last - first))

    def every(self, split: str, place: int, world: int) -> Iterator[Batch]:
        examples = self._measured[split]
        rows = max(EVALUATED // self.section.sequence_length, 1)
        for first in range(place * rows, len(examples), world * rows):
            yield _tensors(examples.ordered(first, min(rows, len(examples) - first)))

    def tokens_seen(self, steps: int) -> int:
        first = min(steps, self.config.trainer.steps - self.section.second_phase.steps)
        rest = (steps - first) * self.section.second_phase.batch_tokens
        return first * self.section.batch_tokens + rest


def _tensors(arrays: Mapping[str, Any]) -> Batch:
    batch = {key: torch.from_numpy(array) for key, array in arrays.items()}
    batch["targets"].masked_fill_(~batch.pop("hidden"), IGNORED)
    return batch
