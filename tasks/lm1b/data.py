"""The data of a language model: a tokenizer and packed rows, prepared once for all its runs."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from models.cross_entropy import IGNORED
from tasks.batch import Batch
from tasks.data import SPLITS, PreparedRows
from tasks.lm1b.packing import FirstFit, Joined, pack_split
from tasks.lm1b.rows import ABOUT, FORMAT, PackedRows
from tasks.text.corpus import Corpora
from tasks.text.tokenizer import load_tokenizer, save_tokenizer, train_bpe

LINES_TOGETHER = 50  # of joined sentences: some five rows of 256 pieces, which can be read on


class PackedText(PreparedRows):
    """Batches of whole packed rows: tokens, targets, segments and positions, each (B, T)."""

    kind, format, last = "text", FORMAT, ABOUT
    published = Corpora()
    shaping = ("vocabulary_size", "sequence_length", "tokenizer_lines", "joined")

    @staticmethod
    def spelled(content: Mapping[str, Any]) -> str:
        # As this kind has always been named, also before sentences could be joined.
        known = {key: value for key, value in content.items() if (key, value) != ("joined", False)}
        return json.dumps(known, sort_keys=True)

    def make(self, folder: Path) -> None:
        """Make the files that are missing: work that was broken off is taken up there."""
        section, path = self.section, folder / "tokenizer.json"
        text = self.published.open(self.text, folder / "sample")
        text = replace(text, together=LINES_TOGETHER if section.joined else 1)
        if not path.exists():
            lines = itertools.islice(text.lines("train"), section.tokenizer_lines)
            save_tokenizer(train_bpe(lines, section.vocabulary_size), path)
        tokenizer = load_tokenizer(path)
        for split in SPLITS:
            if not (folder / split / ABOUT).exists():
                packer = (Joined if section.joined else FirstFit)(section.sequence_length)
                pack_split(folder / split, text, split, tokenizer, packer)

    def rows_in(self, folder: Path) -> PackedRows:
        return PackedRows(folder)

    def open(self, folder: Path) -> dict[str, Any]:
        rows = super().open(folder)
        about = {split: of.about for split, of in self.splits.items()}
        tokens = {f"{split}_tokens": facts["tokens"] for split, facts in about.items()}
        return {**rows, **tokens, "skipped": about["train"]["skipped"]}

    def first(self, split: str, count: int) -> Batch:
        return self.take(split, np.arange(min(count, len(self.splits[split]))))

    def take(self, split: str, numbers: np.ndarray) -> Batch:
        arrays = self.splits[split].rows(numbers)
        batch = {key: torch.from_numpy(array) for key, array in arrays.items()}
        batch["targets"].masked_fill_(batch["segments"] == 0, IGNORED)
        return batch
