"""Documents as arrays of pieces on disk: written once, mapped into memory by every run.

Of a split: `pieces.uint16`, all sentences one after the other; `sentences.int64`, where each begins
among the pieces; `documents.int64`, which sentence each begins with. The last two end with one more
entry, the total. `documents.json` appears last and says what there is.

Shapes: N pieces, S sentences, C documents.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sweeper.store.errors import UserError
from sweeper.store.files import publish_json
from tasks.synthetic import samples
from tasks.text.corpus import PIECES, STARTS, Arrays, new_arrays
from tasks.text.source import Counts, Source, Text, Texts, batches, read_line
from tasks.text.tokenizer import is_ended, split_sentences

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
    """Encode (split, document) pairs into folders, as a stream; return what each split got."""
    totals = {split: dict.fromkeys(DTYPES, 0) for split in folders}
    with ExitStack() as stack:
        opened = {split: new_arrays(folder, DTYPES) for split, folder in folders.items()}
        adds = {split: stack.enter_context(arrays) for split, arrays in opened.items()}
        for chunk in batches(documents, CHUNK):
            texts = [sentence for _, document in chunk for sentence in document]
            encodings = iter(tokenizer.encode_batch(texts, add_special_tokens=False))
            for split, document in chunk:
                total, pieces, sentences = totals[split], list[int](), list[int]()
                for encoding in itertools.islice(encodings, len(document)):
                    for start in range(0, len(encoding.ids), LONGEST_SENTENCE):
                        sentences.append(total["pieces"] + len(pieces))
                        pieces.extend(encoding.ids[start : start + LONGEST_SENTENCE])
                if pieces:  # a document without any piece is none
                    columns = (pieces, sentences, [total["sentences"]])
                    for name, values in zip(DTYPES, columns, strict=True):
                        adds[split](name, values)
                        total[name] += len(values)
        for split, add in adds.items():
            add("sentences", [totals[split]["pieces"]])
            add("documents", [totals[split]["sentences"]])
    return totals


def publish_about(folder: Path, about: Mapping[str, Any]) -> None:
    """Write what a split holds; from now on it can be opened."""
    publish_json(folder / ABOUT, {"format": FORMAT, **about})


LONGEST = 500  # sentences; a longer text is several documents, so that a single book can be split
LINES_TOGETHER = 100  # lines a sentence may stretch over
FEWEST = 2  # documents of a split: the random second text of a pair is another document's
# Documents kept back: a share of all, up to a maximum. Enough to measure, and quick to evaluate.
VALIDATION = (0.01, 500)
TEST = (0.05, 2000)


@dataclass(frozen=True)
class Documents:
    """Where documents are read from, in a fixed order; `test` if the source has a split for it."""

    name: str
    train: Texts
    test: Texts | None
    rule: str

    def read(self, *, test: bool = False, counts: Counts | None = None) -> Iterator[list[str]]:
        """Yield documents, each a list of at least one sentence; `counts` is filled with lines."""
        texts = self.test if test else self.train
        counts = Counts() if counts is None else counts
        for text in texts() if texts is not None else ():
            yield from documents_of(text, self.rule, counts)

    def placed(
        self, thresholds: SplitThresholds, counts: Counts
    ) -> Iterator[tuple[str, list[str]]]:
        """Yield (split, document), the source's own test split last."""
        for document in self.read(counts=counts):
            yield thresholds.of(document), document
        for document in self.read(test=True, counts=counts):
            yield "test", document

    def thresholds(self) -> SplitThresholds:
        """Read all documents once and return which split each belongs to; UserError for too few."""
        found = np.unique(np.fromiter(map(checksum, self.read()), np.uint64))
        if len(found) < (2 if self.test else 3) * FEWEST:
            raise UserError(
                f"{self.name} has {len(found)} different documents, too few for train, validation "
                f"and test: give it more text, or choose task.documents (now {self.rule})."
            )
        validation, test = (
            min(max(int(len(found) * share), FEWEST), most) for share, most in (VALIDATION, TEST)
        )
        last = validation if self.test else validation + test
        return SplitThresholds(int(found[validation - 1]), int(found[last - 1]))


@dataclass(frozen=True)
class SplitThresholds:
    """The largest checksums of validation and of test; equal texts share a split."""

    validation: int
    test: int

    def of(self, document: list[str]) -> str:
        place = checksum(document)
        if place <= self.validation:
            return "validation"
        return "test" if place <= self.test else "train"


def checksum(document: list[str]) -> int:
    """Return 64 bits that depend on the text of a document alone."""
    text = "\n".join(document).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


def documents_of(text: Text, rule: str, counts: Counts) -> Iterator[list[str]]:
    """Yield the documents of one text; a sentence may go on in the next line, as in books."""
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
        """Return the documents that `data` of a config names; a row on the hub is one.

        A sample is kept in `folder`.
        """
        own = {"hub": "file", "sample": "blank_line"}.get(data["source"], rule)
        return Documents(*self.texts(data, folder), own)
