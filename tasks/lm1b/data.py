"""The data of a language model: a tokenizer and packed rows, prepared once for all its runs."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from models.cross_entropy import IGNORED
from tasks.batch import Batch
from tasks.config.sections import RunConfig
from tasks.data import SPLITS, PreparedData
from tasks.lm1b.packing import FirstFit, Joined, pack_split
from tasks.lm1b.rows import ABOUT, FORMAT, PackedRows
from tasks.seeds import Shuffled
from tasks.text import corpus
from tasks.text.tokenizer import load_tokenizer, save_tokenizer, train_bpe

LINES_TOGETHER = 200  # of joined sentences: some 20 rows of 256 pieces that can be read on


class PackedText(PreparedData):
    """Batches of whole packed rows: tokens, targets, segments and positions, each (B, T)."""

    kind, format, last = "text", FORMAT, ABOUT
    shaping = ("vocabulary_size", "sequence_length", "tokenizer_lines", "joined")

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self.splits: dict[str, PackedRows] = {}
        self.rows_per_batch = self.section.batch_tokens // self.section.sequence_length

    def source(self) -> tuple[str, str]:
        return corpus.digest(self.text), corpus.describe(self.text)

    @staticmethod
    def spelled(content: Mapping[str, Any]) -> str:
        # As this kind has always been named, also before sentences could be joined.
        known = {key: value for key, value in content.items() if (key, value) != ("joined", False)}
        return json.dumps(known, sort_keys=True)

    def make(self, folder: Path) -> None:
        """Make the files that are missing: work that was broken off is taken up there."""
        section, path = self.section, folder / "tokenizer.json"
        text = corpus.open_corpus(self.text, folder / "sample")
        text = replace(text, together=LINES_TOGETHER if section.joined else 1)
        if not path.exists():
            lines = itertools.islice(text.lines("train"), section.tokenizer_lines)
            save_tokenizer(train_bpe(lines, section.vocabulary_size), path)
        tokenizer = load_tokenizer(path)
        for split in SPLITS:
            if not (folder / split / ABOUT).exists():
                packer = (Joined if section.joined else FirstFit)(section.sequence_length)
                pack_split(folder / split, text, split, tokenizer, packer)

    def open(self, folder: Path) -> dict[str, Any]:
        self.splits = {split: PackedRows(folder / split) for split in SPLITS}
        about = {split: rows.about for split, rows in self.splits.items()}
        self._order = Shuffled(len(self.splits["train"]), self.config.seed)
        return {
            **{f"{split}_rows": facts["rows"] for split, facts in about.items()},
            **{f"{split}_tokens": facts["tokens"] for split, facts in about.items()},
            "skipped": about["train"]["skipped"],
        }

    def batch(self, step: int) -> Batch:
        rows = self.rows_per_batch
        return self._take("train", self._order.stretch((step - 1) * rows, rows))

    def batches(self, split: str) -> Iterator[Batch]:
        for first in range(0, len(self.splits[split]), self.rows_per_batch):
            last = min(first + self.rows_per_batch, len(self.splits[split]))
            yield self._take(split, np.arange(first, last))

    def first(self, split: str, count: int) -> Batch:
        """Return the first rows of a split."""
        return self._take(split, np.arange(min(count, len(self.splits[split]))))

    def _take(self, split: str, numbers: np.ndarray) -> Batch:
        arrays = self.splits[split].rows(numbers)
        batch = {key: torch.from_numpy(array) for key, array in arrays.items()}
        batch["targets"].masked_fill_(batch["segments"] == 0, IGNORED)
        return batch
