"""The prepared data of a language model: a tokenizer and packed rows, shared by its runs."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sweeper.store.errors import UserError
from tasks.lm1b.packing import pack_split
from tasks.lm1b.rows import FORMAT, PackedRows
from tasks.text.corpus import SPLITS, digest, open_corpus
from tasks.text.tokenizer import load_tokenizer, save_tokenizer, train_bpe


@dataclass(frozen=True)
class TextSettings:
    """What shapes the arrays beside the text itself: keys of a language-model task."""

    vocabulary_size: int
    sequence_length: int
    tokenizer_lines: int


def folder_name(text_digest: str, settings: TextSettings) -> str:
    """The name of the folder that holds this text in this shape."""
    content = {"format": FORMAT, "digest": text_digest, **asdict(settings)}
    key = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return f"text-{key[:16]}"


def prepare(folder: Path, data: Mapping[str, Any], settings: TextSettings) -> dict[str, Any]:
    """Make whatever `folder` lacks; returns what each split holds (see `pack_split`).

    The caller keeps other processes out of `folder`; work that was broken off is taken up at the
    first file that is missing. Raises UserError where the text is missing, empty, or no longer what
    the plan was made from (data.digest).
    """
    missing = [split for split in SPLITS if not (folder / split / "rows.json").exists()]
    if missing:
        found = digest(data)
        if data.get("digest") not in (None, found):
            raise UserError(
                f"data.digest={data['digest']}: expected the text that was planned with, found "
                f"{found}; plan again, or bring the old text back."
            )
        corpus = open_corpus(data, folder / "sample")
        path = folder / "tokenizer.json"
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            lines = itertools.islice(corpus.lines("train"), settings.tokenizer_lines)
            save_tokenizer(train_bpe(lines, settings.vocabulary_size), path)
        tokenizer = load_tokenizer(path)
        for split in missing:
            pack_split(folder / split, corpus, split, tokenizer, settings.sequence_length)
    return {split: dict(PackedRows(folder / split).about) for split in SPLITS}
