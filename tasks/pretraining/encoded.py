"""Documents as arrays of pieces on disk: written once, mapped into memory by every run.

Of a split: `pieces.uint16`, all sentences one after the other; `sentences.int64`, where each begins
among the pieces; `documents.int64`, which sentence each begins with. The last two end with one more
entry, the total. `documents.json` appears last and says what there is.

Shapes: N pieces, S sentences, C documents.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sweeper.store.files import publish_json
from tasks.text.arrays import PIECES, STARTS, Add, Arrays, new_arrays
from tasks.text.lines import batches

if TYPE_CHECKING:
    from tokenizers import Tokenizer

FORMAT = 1
ABOUT = "documents.json"
DTYPES: dict[str, np.dtype] = {"pieces": PIECES, "sentences": STARTS, "documents": STARTS}
LONGEST_SENTENCE = 128  # pieces; what is longer (a table, a list) goes on as another sentence
CHUNK = 64  # documents encoded at a time


class EncodedDocuments:
    """The documents of a split; UserError as for `Arrays`."""

    def __init__(self, folder: Path) -> None:
        arrays = Arrays(folder, ABOUT, FORMAT, DTYPES)
        self.about = about = arrays.about
        self.pieces_N = arrays.mapped("pieces", PIECES, about["pieces"])
        self.sentences_S = arrays.mapped("sentences", STARTS, about["sentences"] + 1)
        self.documents_C = arrays.mapped("documents", STARTS, about["documents"] + 1)


def encode(
    documents: Iterable[tuple[str, list[str]]], tokenizer: Tokenizer, folders: Mapping[str, Path]
) -> dict[str, dict[str, int]]:
    """Encode (split, document) pairs into the folder of each split; returns what each got.

    Streams: memory does not grow with the text. `publish_about` makes a split readable.
    """
    totals = {split: dict.fromkeys(DTYPES, 0) for split in folders}
    with ExitStack() as stack:
        adds = {
            split: stack.enter_context(new_arrays(folder, DTYPES))
            for split, folder in folders.items()
        }
        for split, document in _encoded(documents, tokenizer):
            _write(document, adds[split], totals[split])
        for split, add in adds.items():
            add("sentences", [totals[split]["pieces"]])
            add("documents", [totals[split]["sentences"]])
    return totals


def _write(document: Iterable[list[int]], add: Add, totals: dict[str, int]) -> None:
    """Write a document of sentences of pieces; one without any piece is no document."""
    pieces: list[int] = []
    sentences: list[int] = []
    for sentence in document:
        for start in range(0, len(sentence), LONGEST_SENTENCE):
            sentences.append(totals["pieces"] + len(pieces))
            pieces.extend(sentence[start : start + LONGEST_SENTENCE])
    if pieces:
        new = {"pieces": pieces, "sentences": sentences, "documents": [totals["sentences"]]}
        for name, values in new.items():
            add(name, values)
            totals[name] += len(values)


def publish_about(folder: Path, about: Mapping[str, Any]) -> None:
    """Write what a split holds; from now on it can be opened."""
    publish_json(folder / ABOUT, {"format": FORMAT, **about})


def _encoded(
    documents: Iterable[tuple[str, list[str]]], tokenizer: Tokenizer
) -> Iterator[tuple[str, list[list[int]]]]:
    for chunk in batches(documents, CHUNK):
        sentences = [sentence for _, document in chunk for sentence in document]
        ids = (e.ids for e in tokenizer.encode_batch(sentences, add_special_tokens=False))
        for split, document in chunk:
            yield split, [next(ids) for _ in document]
