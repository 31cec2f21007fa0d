"""Documents as arrays of pieces on disk: written once, mapped into memory by every run.

Of a split: `pieces.uint16`, all sentences one after the other; `sentences.int64`, where each begins
among the pieces; `documents.int64`, which sentence each begins with. The last two end with one more
entry, the total. `documents.json` appears last and says what there is.

Shapes: N pieces, S sentences, C documents.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sweeper.store.errors import UserError
from sweeper.store.files import make_directory, new_file, publish_json, read_object, write_all

if TYPE_CHECKING:
    from tokenizers import Tokenizer

FORMAT = 1
ABOUT = "documents.json"
PIECES = np.dtype("<u2")
STARTS = np.dtype("<i8")
LONGEST_SENTENCE = 128  # pieces; what is longer (a table, a list) goes on as another sentence
CHUNK = 64  # documents encoded at a time


class EncodedDocuments:
    """The documents of a split. Raises UserError where they are absent, incomplete or changed."""

    def __init__(self, folder: Path) -> None:
        keys = ("format", "pieces", "sentences", "documents")
        about = read_object(folder / ABOUT, keys=keys)
        if about is None:
            raise UserError(f"{folder} holds no encoded documents; prepare the data.")
        self.about: Mapping[str, Any] = about
        self._folder = folder
        if about["format"] != FORMAT:
            raise self._changed()
        self.pieces_N = self._mapped("pieces", PIECES, about["pieces"])
        self.sentences_S = self._mapped("sentences", STARTS, about["sentences"] + 1)
        self.documents_C = self._mapped("documents", STARTS, about["documents"] + 1)

    def _mapped(self, name: str, dtype: np.dtype, length: int) -> NDArray[Any]:
        path = self._folder / _file_name(name, dtype)
        if not path.is_file() or path.stat().st_size != length * dtype.itemsize:
            raise self._changed()
        return np.asarray(np.memmap(path, dtype, "r", shape=(length,)))

    def _changed(self) -> UserError:
        return UserError(
            f"{self._folder} is not as it was written; delete it and prepare the data."
        )


class DocumentWriter:
    """Writes one split; its files appear when `stack` is left without an error."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        make_directory(folder)
        self._descriptors = {
            name: stack.enter_context(new_file(folder / _file_name(name, dtype)))
            for name, dtype in (("pieces", PIECES), ("sentences", STARTS), ("documents", STARTS))
        }
        self.totals = {"pieces": 0, "sentences": 0, "documents": 0}

    def add(self, document: Iterable[list[int]]) -> None:
        """Write a document of sentences of pieces; one without any piece is no document."""
        pieces, sentences = array("H"), array("q")
        for sentence in document:
            for start in range(0, len(sentence), LONGEST_SENTENCE):
                sentences.append(self.totals["pieces"] + len(pieces))
                pieces.extend(sentence[start : start + LONGEST_SENTENCE])
        if pieces:
            self._write("documents", array("q", [self.totals["sentences"]]), 1)
            self._write("sentences", sentences, len(sentences))
            self._write("pieces", pieces, len(pieces))

    def finish(self) -> None:
        """Write the totals that end the lists of starts."""
        for name, of in (("sentences", "pieces"), ("documents", "sentences")):
            self._write(name, array("q", [self.totals[of]]), 0)

    def _write(self, name: str, values: array, count: int) -> None:
        dtype = PIECES if name == "pieces" else STARTS
        write_all(self._descriptors[name], np.asarray(values, dtype).tobytes())
        self.totals[name] += count


def encode(
    documents: Iterable[tuple[str, list[str]]], tokenizer: Tokenizer, folders: Mapping[str, Path]
) -> dict[str, dict[str, int]]:
    """Encode (split, document) pairs into the folder of each split; returns what each got.

    Streams: memory does not grow with the text. `publish_about` makes a split readable.
    """
    with ExitStack() as stack:
        writers = {split: DocumentWriter(folder, stack) for split, folder in folders.items()}
        for split, document in _encoded(documents, tokenizer):
            writers[split].add(document)
        for writer in writers.values():
            writer.finish()
    return {split: writer.totals for split, writer in writers.items()}


def publish_about(folder: Path, about: Mapping[str, Any]) -> None:
    """Write what a split holds; from now on it can be opened."""
    publish_json(folder / ABOUT, {"format": FORMAT, **about})


def _encoded(
    documents: Iterable[tuple[str, list[str]]], tokenizer: Tokenizer
) -> Iterator[tuple[str, list[list[int]]]]:
    iterator = iter(documents)
    while chunk := list(itertools.islice(iterator, CHUNK)):
        sentences = [sentence for _, document in chunk for sentence in document]
        ids = (e.ids for e in tokenizer.encode_batch(sentences, add_special_tokens=False))
        for split, document in chunk:
            yield split, [next(ids) for _ in document]


def _file_name(name: str, dtype: np.dtype) -> str:
    return f"{name}.{dtype.name}"
