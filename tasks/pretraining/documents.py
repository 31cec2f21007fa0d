"""Documents as arrays of pieces on disk. They are written once, and every run maps them to memory.

The folder of a split has four files:

- `pieces.uint16`: the pieces of all sentences, one after the other.
- `sentences.int64`: the first piece of each sentence, then the number of pieces.
- `documents.int64`: the first sentence of each document, then the number of sentences.
- `documents.json`: the facts `about` the split. It is written last.

Shapes: N pieces, S sentences, C documents.
"""

from __future__ import annotations

import hashlib
import itertools
import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sweeper.store.errors import NOTE, UserError
from tasks.synthetic import samples
from tasks.text.corpus import PIECES, STARTS, Arrays, new_arrays
from tasks.text.source import (
    Counts,
    Source,
    Text,
    Texts,
    batches,
    note_repeats,
    read_line,
)
from tasks.text.tokenizer import is_ended, pieces_of, split_sentences

if TYPE_CHECKING:
    from tokenizers import Tokenizer

FORMAT = 1
ABOUT = "documents.json"
DTYPES: dict[str, np.dtype] = {
    "pieces": PIECES,
    "sentences": STARTS,
    "documents": STARTS,
}
# Pieces; longer text (a table, a list) is split into several sentences.
LONGEST_SENTENCE = 128
CHUNK = 256  # documents that are encoded at a time


class EncodedDocuments:
    """The documents of a split. Raises UserError as `Arrays` does."""

    def __init__(self, folder: Path) -> None:
        arrays = Arrays(folder, ABOUT, FORMAT, DTYPES)
        self.about = about = arrays.about
        self.pieces_N = arrays.mapped("pieces", PIECES, about["pieces"])
        self.sentences_S = arrays.mapped("sentences", STARTS, about["sentences"] + 1)
        self.documents_C = arrays.mapped("documents", STARTS, about["documents"] + 1)


def encode(
    documents: Iterable[tuple[str, bytes]],
    tokenizer: Tokenizer,
    folders: Mapping[str, Path],
) -> dict[str, dict[str, int]]:
    """Encode documents into the folder of each split, as a stream.

    Args:
        documents: (split, text) as SplitDocuments yields them.

    Returns:
        The number of pieces, sentences and documents of each split.
    """
    totals = {split: dict.fromkeys(DTYPES, 0) for split in folders}
    with ExitStack() as stack:
        opened = {
            split: new_arrays(folder, DTYPES) for split, folder in folders.items()
        }
        adds = {split: stack.enter_context(arrays) for split, arrays in opened.items()}
        for chunk in batches(documents, CHUNK):
            for split, pieces_N, sizes_S in _encoded(tokenizer, chunk):
                if len(pieces_N):  # skip documents without pieces
                    total = totals[split]
                    starts_S = total["pieces"] + np.cumsum(sizes_S) - sizes_S
                    columns = (pieces_N, starts_S, np.array([total["sentences"]]))
                    for name, values_N in zip(DTYPES, columns, strict=True):
                        adds[split](name, values_N)
                        total[name] += len(values_N)
        for split, add in adds.items():
            add("sentences", [totals[split]["pieces"]])
            add("documents", [totals[split]["sentences"]])
    return totals


def _encoded(
    tokenizer: Tokenizer, documents: list[tuple[str, bytes]]
) -> Iterator[tuple[str, NDArray[np.uint16], NDArray[np.int64]]]:
    """Yield the split of each document, its pieces, and the number of pieces of each sentence."""
    texts = [text.decode().split("\n") for _, text in documents]
    every = pieces_of(tokenizer, list(itertools.chain.from_iterable(texts)))
    sentences = iter(every)
    for (split, _), own in zip(documents, texts, strict=True):
        pieces, sizes = list[int](), list[int]()
        for ids in itertools.islice(sentences, len(own)):
            pieces += ids
            whole, rest = divmod(len(ids), LONGEST_SENTENCE)
            sizes += [LONGEST_SENTENCE] * whole + [rest] * bool(rest)
        yield split, np.array(pieces, PIECES), np.array(sizes, STARTS)


LONGEST = 500  # sentences of a document; longer texts are cut, so that one book can fill all splits
LINES_TOGETHER = 100  # the most lines over which a sentence may stretch
# The share of documents of one sentence above which the sweep prints a note.
MOST_SINGLE = 0.5
# Documents of a split: a pair may take its second text from another document.
FEWEST = 2
# Held-out documents: a share of all documents, up to a maximum that keeps evaluation quick.
VALIDATION = (0.01, 500)
TEST = (0.05, 2000)


@dataclass(frozen=True)
class Documents:
    """A source of documents, in a fixed order. `test` is its own test split, or None."""

    name: str
    train: Texts
    test: Texts | None
    rule: str

    def read(
        self, *, test: bool = False, counts: Counts | None = None
    ) -> Iterator[list[str]]:
        """Yield documents, each a list of at least one sentence. Add the lines read to `counts`."""
        texts = self.test if test else self.train
        counts = Counts() if counts is None else counts
        for text in texts() if texts is not None else ():
            yield from documents_of(text, self.rule, counts)


class SplitDocuments:
    """All documents of a source, each with its split. They are read once, into a file.

    Iteration yields (split, sentences joined by line ends). Equal texts are in the same split. The
    source's own test split comes last.

    Attributes:
        counts: the numbers of lines that were read.

    Raises:
        UserError: there are too few different documents for three splits.
    """

    def __init__(self, found: Documents, file: BinaryIO) -> None:
        self.counts = Counts()
        self._file = file
        sizes, checksums, single = array("q"), array("Q"), 0
        for document in found.read(counts=self.counts):
            text = "\n".join(document).encode()
            sizes.append(file.write(text))
            checksums.append(_checksum(text))
            single += len(document) == 1
        places = np.array(checksums)
        different = np.unique(places)
        count = len(different)
        if count < (2 if found.test else 3) * FEWEST:
            raise UserError(
                f"{found.name} has {count} different documents, too few for the splits train, "
                "validation and test; give it more text, or change what separates documents "
                f"(task.documents={found.rule})."
            )

        validation, test = (
            min(max(int(count * share), FEWEST), most)
            for share, most in (VALIDATION, TEST)
        )
        last = validation if found.test else validation + test
        # Validation gets the documents with the smallest checksums, test those with the next ones.
        largest = different[[validation - 1, last - 1]]
        splits = np.searchsorted(largest, places).tolist()
        if single > MOST_SINGLE * len(places):
            said = (
                f"{single / len(places):.0%} of the documents are a single sentence. Their second "
                "text is always random, so next-sentence prediction is trivial"
            )
            blank = found.rule == "blank_line"
            remedy = (
                "choose task.documents=file" if blank else "give it longer documents"
            )
            print(f"{NOTE}{found.name}: {said}; {remedy}.", file=sys.stderr)
        for document in found.read(test=True, counts=self.counts):
            text = "\n".join(document).encode()
            sizes.append(file.write(text))
            checksums.append(_checksum(text))
            splits.append(1)
        note_repeats(found.name, "document", places, np.array(checksums)[len(places) :])
        self._sizes, self._splits = sizes, bytes(splits)

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        self._file.seek(0)
        for size, split in zip(self._sizes, self._splits, strict=True):
            yield ("validation", "test", "train")[split], self._file.read(size)


def _checksum(text: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


def documents_of(text: Text, rule: str, counts: Counts) -> Iterator[list[str]]:
    """Yield the documents of one text. A sentence may continue in the next line, as in books."""
    sentences: list[str] = []
    together: list[str] = []
    framed = False
    for raw in text:
        line = read_line(raw)
        if counts.add(line):
            together.append(line.text)
            if not is_ended(line.text) and len(together) < LINES_TOGETHER:
                continue
        sentences += split_sentences(" ".join(together))
        together.clear()
        if line.skip == "markup":
            framed = raw is not None and raw.lstrip().startswith(b"<doc ")
        parted = line.skip == "empty" and rule == "blank_line" and not framed
        if sentences and (parted or line.skip == "markup" or len(sentences) >= LONGEST):
            yield sentences
            sentences = []
    sentences += split_sentences(" ".join(together))
    if sentences:
        yield sentences


class Library(Source):
    """The documents that encoders are pre-trained on."""

    sample = samples.DOCUMENTS

    def open(self, data: Mapping[str, Any], rule: str, folder: Path) -> Documents:
        """Return the documents that the section `data` names. A row from the hub is a document.

        If the source is the sample, it is written to `folder`.
        """
        own = {"hub": "file", "sample": "blank_line"}.get(data["source"], rule)
        return Documents(*self.texts(data, folder), own)
