"""Documents as arrays of token ids on disk. They are written once, and each run memory-maps them.

The folder of a split has four files:

- `pieces.uint16`: the token ids of all sentences, one sentence after the other.
- `sentences.int64`: for each sentence, the index of its first token. The last element is N.
- `documents.int64`: for each document, the index of its first sentence. The last element is S.
- `documents.json`: the numbers of tokens, sentences, documents and lines. It is written last.

Shapes: N tokens, S sentences, C documents.
"""

import hashlib
import itertools
import json
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from sweeper.store.errors import UserError
from sweeper.store.numbers import plural
from tasks.synthetic import samples
from tasks.text.corpus import PIECES, STARTS, mapped, new_arrays
from tasks.text.source import (
    Counts,
    Source,
    Text,
    Texts,
    batches,
    note,
    note_repeats,
    read_line,
)
from tasks.text.tokenizer import is_ended, pieces_of, split_sentences

FORMAT = 1
ABOUT = "documents.json"
DTYPES: dict[str, np.dtype] = {
    "pieces": PIECES,
    "sentences": STARTS,
    "documents": STARTS,
}
# Cut longer sentences, such as tables and lists, into parts of at most this many tokens.
LONGEST_SENTENCE = 128
CHUNK = 256  # encode this many documents at a time


class EncodedDocuments:
    """The memory-mapped arrays of a split. `about` is the content of documents.json."""

    def __init__(self, folder: Path) -> None:
        self.about: dict[str, Any] = json.loads((folder / ABOUT).read_bytes())
        sentences, documents = self.about["sentences"], self.about["documents"]
        self.pieces_N = mapped(folder, "pieces", PIECES, self.about["pieces"])
        self.sentences_S = mapped(folder, "sentences", STARTS, sentences + 1)
        self.documents_C = mapped(folder, "documents", STARTS, documents + 1)


def encode(
    documents: Iterable[tuple[str, bytes]],
    tokenizer: Tokenizer,
    folders: Mapping[str, Path],
) -> dict[str, dict[str, int]]:
    """Encode documents chunk by chunk, and write them to the folders of their splits.

    Args:
        documents: pairs (split, text) from SplitDocuments.
        folders: the folder of each split.

    Returns:
        For each split, the numbers of "pieces" (tokens), "sentences" and "documents".
    """
    totals = {split: dict.fromkeys(DTYPES, 0) for split in folders}
    with ExitStack() as stack:
        adds = {
            split: stack.enter_context(new_arrays(folder, DTYPES))
            for split, folder in folders.items()
        }
        for chunk in batches(documents, CHUNK):
            for split, sentences in _encoded(tokenizer, chunk):
                if not sentences:
                    continue
                total, sizes = totals[split], [len(ids) for ids in sentences]
                values = {
                    "pieces": np.concatenate(sentences),
                    "sentences": total["pieces"] + np.cumsum([0, *sizes[:-1]]),
                    "documents": np.array([total["sentences"]]),
                }
                for name, array in values.items():
                    adds[split](name, array)
                    total[name] += len(array)

        for split, add in adds.items():
            add("sentences", [totals[split]["pieces"]])
            add("documents", [totals[split]["sentences"]])
    return totals


def _encoded(
    tokenizer: Tokenizer, documents: list[tuple[str, bytes]]
) -> Iterator[tuple[str, list[list[int]]]]:
    """Yield pairs (split, token ids of each sentence), one for each document.

    Sentences longer than LONGEST_SENTENCE are cut.
    """
    texts = [text.decode().split("\n") for _, text in documents]
    every = iter(pieces_of(tokenizer, list(itertools.chain.from_iterable(texts))))
    for (split, _), own in zip(documents, texts, strict=True):
        yield (
            split,
            [
                ids[first : first + LONGEST_SENTENCE]
                for ids in itertools.islice(every, len(own))
                for first in range(0, len(ids), LONGEST_SENTENCE)
            ],
        )


# Cut documents after this many sentences, so that a single book has documents for all splits.
LONGEST = 500
LINES_TOGETHER = 100  # a sentence may extend over at most this many lines
# Print a note if more than this share of the documents have only one sentence.
MOST_SINGLE = 0.5
# A split needs this many documents, because a pair may take its second text from another document.
FEWEST = 2
# For each of these splits, its share of the documents, and the largest number of documents. The
# limit keeps evaluation fast.
VALIDATION = (0.01, 500)
TEST = (0.05, 2000)


class SplitDocuments:
    """An iterable of pairs (split, text) with all documents of a source.

    Each line of a text is a sentence. The checksum of a document decides its split, so equal
    documents get the same split. If the source has a test split, its documents come last. The
    source is read once, and copied to `file`.

    Args:
        name: the name of the source in messages.
        train: the function that yields the texts to divide into splits.
        test: the function that yields the texts of the source's test split, or None if the source
            has no test split.
        rule: "blank_line" or "file" (see `documents_of`).
        file: a temporary file.

    Attributes:
        counts: the numbers of kept and skipped lines.

    Raises:
        UserError: there are too few different documents for three splits.
    """

    def __init__(
        self, name: str, train: Texts, test: Texts | None, rule: str, file: BinaryIO
    ) -> None:
        self.counts = Counts()
        self._file = file
        self._sizes = array("q")
        self._single = 0  # the number of documents with a single sentence

        hashes = self._copy(train, rule)
        different = np.unique(hashes)
        count = len(different)
        fewest = (2 if test else 3) * FEWEST
        if count < fewest:
            raise UserError(
                f"{name} has {plural(count, 'different document')} to divide: expected at least "
                f"{fewest} ({FEWEST} for each split); add text, or change task.documents={rule}, "
                "which decides what ends a document."
            )
        if self._single > MOST_SINGLE * len(hashes):
            note(
                name,
                f"{self._single / len(hashes):.0%} of the documents have only one sentence. Pairs "
                "from these always have a random second text, so next-sentence prediction is "
                "trivial; use longer documents, or task.documents=file instead of blank_line.",
            )

        validated, tested = (
            min(max(int(count * share), FEWEST), most)
            for share, most in (VALIDATION, TEST)
        )
        held_out = validated if test else validated + tested
        # The documents with the smallest checksums form the validation split. The documents with
        # the next checksums form the test split, if the source has none.
        largest = different[[validated - 1, held_out - 1]]
        splits = np.searchsorted(largest, hashes).tolist()

        own = self._copy(test, rule) if test else np.array([], np.uint64)
        note_repeats(name, "document", hashes, own)
        self._splits = bytes([*splits, *[1] * len(own)])

    def _copy(self, texts: Texts, rule: str) -> NDArray[np.uint64]:
        """Copy the documents of these texts to the file. Return a checksum of each document."""
        checksums = array("Q")
        for text in texts():
            for document in documents_of(text, rule, self.counts):
                content = "\n".join(document).encode()
                self._sizes.append(self._file.write(content))
                self._single += len(document) == 1
                digest = hashlib.blake2b(content, digest_size=8).digest()
                checksums.append(int.from_bytes(digest, "big"))
        return np.array(checksums)

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        self._file.seek(0)
        for size, split in zip(self._sizes, self._splits, strict=True):
            yield ("validation", "test", "train")[split], self._file.read(size)


def documents_of(text: Text, rule: str, counts: Counts) -> Iterator[list[str]]:
    """Yield the documents of one text, each as a list of sentences.

    A sentence may extend over several lines, as in a book. In the output of WikiExtractor, the tags
    <doc> and </doc> end a document, and blank lines between these tags do not. A document also ends
    after LONGEST sentences.

    Args:
        rule: "blank_line" if a blank line ends a document, or "file" if the text is one document.
        counts: the counts to update with the lines of the text.
    """
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
    """The source of the documents on which encoders are pre-trained."""

    sample = samples.DOCUMENTS
