"""Packed rows of text on disk.

A row consists of whole segments and is padded with PAD. A segment is a sentence followed by END. A
sentence that is longer than a row becomes several segments. With `task.joined=true`, all sentences
are concatenated and then cut into rows, and each row is one segment.

Only targets are stored, because the inputs can be computed from them. A segment with the targets
[t1 .. tn] has the inputs [PAD, t1 .. tn-1], as in tensor2tensor. So the model predicts every token
exactly once, including the first token and END, from earlier tokens of the same segment.

The tokenizer of a published model may use other ids for PAD and END (`task.marks`). Rows on disk
always use the ids from tasks/text/tokenizer.py. Batches use the ids of the tokenizer.

Shapes: R rows of a split, B rows of a batch, T positions of a row.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from tokenizers import Tokenizer

from models.cross_entropy import IGNORED
from sweeper.store.errors import UserError
from sweeper.store.files import publish_json
from tasks.batch import Batch, Integers, of_arrays
from tasks.config.schema import Problem, given, whole
from tasks.config.sections import TextSection
from tasks.data import PreparedRows
from tasks.text.corpus import PIECES, Add, Corpora, Corpus, mapped, new_arrays
from tasks.text.source import SPLITS, Counts, Line, batches, note_lines, note_repeats
from tasks.text.tokenizer import (
    END,
    LARGEST_VOCABULARY,
    PAD,
    SMALLEST_BPE,
    pieces_of,
    tokenizer_at,
    train_bpe,
)

FORMAT = 1
ABOUT = "rows.json"


class PackedRows:
    """The packed rows of one split on disk. `about` is the content of rows.json."""

    def __init__(self, folder: Path) -> None:
        self.about: Mapping[str, Any] = json.loads((folder / ABOUT).read_bytes())
        self.sequence_length: int = self.about["sequence_length"]
        self._joined = bool(self.about.get("joined"))
        shape = (self.about["rows"], self.sequence_length)
        self._targets_RT = mapped(folder, "rows", PIECES, *shape)

    def __len__(self) -> int:
        return len(self._targets_RT)

    def rows(self, numbers: Integers) -> dict[str, Integers]:
        """Return the arrays `tokens`, `targets`, `segments` and `positions` of the given rows.

        Each array has the shape (B, T). In each row, segments are numbered from 1. In each segment,
        positions are numbered from 0. Padding has segment 0 and position 0.
        """
        return expand(self._targets_RT[numbers], self._joined)


def expand(targets_BT: NDArray[np.uint16], joined: bool = False) -> dict[str, Integers]:
    """Compute the arrays that `PackedRows.rows` returns from the stored targets.

    If `joined` is True, each row is one segment. If it is False, a segment ends after END or at the
    end of its row.
    """
    _, length = targets_BT.shape
    starts_BT = np.zeros(targets_BT.shape, bool)
    starts_BT[:, 0] = True
    if not joined:
        starts_BT[:, 1:] = targets_BT[:, :-1] == END
    attention_mask_BT = targets_BT != PAD

    tokens_BT = np.zeros(targets_BT.shape, np.int64)
    tokens_BT[:, 1:] = targets_BT[:, :-1]
    tokens_BT *= attention_mask_BT & ~starts_BT

    places_T = np.arange(length)
    begun_BT = np.maximum.accumulate(starts_BT * places_T, axis=1)
    positions_BT = (places_T - begun_BT) * attention_mask_BT
    segments_BT = np.cumsum(starts_BT, axis=1) * attention_mask_BT
    return {
        "tokens": tokens_BT,
        "targets": targets_BT.astype(np.int64),
        "segments": segments_BT,
        "positions": positions_BT,
    }


OPEN_ROWS = 10  # as in tensor2tensor's pack_examples


class FirstFit:
    """A packer that puts each segment into the first open row with enough room.

    A row is open while segments can be added to it. At most OPEN_ROWS rows are open. Segments and
    rows are bytes of token ids instead of arrays, because bytes are copied faster.
    """

    def __init__(self, sequence_length: int) -> None:
        self.sequence_length = sequence_length
        self.row_bytes = sequence_length * PIECES.itemsize
        self.open: list[bytearray] = []  # rows with room left, the oldest first

    def add(self, segment: bytes) -> bytearray | None:
        """Add a segment of 1 to sequence_length tokens. Return the row that this closes, or None.

        A row is closed when it is full. If more than OPEN_ROWS rows are open, the oldest is closed.
        """
        size = len(segment)
        for place, row in enumerate(self.open):
            if len(row) + size <= self.row_bytes:
                row += segment
                return self.open.pop(place) if len(row) == self.row_bytes else None
        if size == self.row_bytes:
            return bytearray(segment)
        self.open.append(bytearray(segment))
        return self.open.pop(0) if len(self.open) > OPEN_ROWS else None


class Joined(FirstFit):
    """A packer that concatenates all segments and cuts them where a row is full.

    At most one row is open.
    """

    def add(self, segment: bytes) -> bytearray | None:
        row = self.open.pop() if self.open else bytearray()
        row += segment
        if len(row) < self.row_bytes:
            self.open.append(row)
            return None
        if len(row) > self.row_bytes:
            self.open.append(row[self.row_bytes :])
        return row[: self.row_bytes]


COUNTED = ("rows", "tokens", "words", "bytes", "sentences", "segments")


class SplitWriter:
    """A writer that packs the sentences of one split into rows.

    Attributes:
        lines: the numbers of kept and skipped lines of the split.
        counts: the numbers of rows, tokens, words, bytes, sentences and segments written.
    """

    def __init__(
        self,
        add: Add,
        tokenizer: Tokenizer,
        packer: FirstFit,
        marks: Sequence[int],
    ) -> None:
        self._add, self._tokenizer, self._packer = add, tokenizer, packer
        ids_V = ids_of(marks)
        self._stored_V = np.empty_like(ids_V)
        self._stored_V[ids_V] = np.arange(len(ids_V))
        self._end = marks[-1]
        self.lines = Counts()
        self._hashes = bytearray()  # 8 bytes for each sentence
        self.counts = Counter(dict.fromkeys(COUNTED, 0))

    def write(self, lines: Sequence[Line]) -> None:
        """Encode the kept lines, append END to each, pack them, and write all closed rows.

        A sentence that is longer than a row is cut.
        """
        texts = [line.text for line in lines if self.lines.add(line)]
        most, rows = self._packer.row_bytes, []
        for text, ids in zip(texts, pieces_of(self._tokenizer, texts), strict=True):
            sentence = self._stored_V[[*ids, self._end]].astype(PIECES).tobytes()
            for first in range(0, len(sentence), most):
                self.counts["segments"] += 1
                row = self._packer.add(sentence[first : first + most])
                if row is not None:
                    rows.append(row)
            self._hashes += hashlib.blake2b(sentence, digest_size=8).digest()
            self.counts["tokens"] += len(ids) + 1
            self.counts["words"] += len(text.split())
            self.counts["bytes"] += len(text.encode()) + 1  # 1 for the line end

        self.counts["sentences"] += len(texts)
        self._append(rows)

    def hashes(self) -> NDArray[np.uint64]:
        """Return an array with a hash of each sentence, in order."""
        return np.frombuffer(self._hashes, np.uint64)

    def finish(self) -> None:
        """Write the rows that are still open."""
        self._append(self._packer.open)

    def about(self, split: str) -> dict[str, Any]:
        """Return the content of rows.json."""
        length, counts = self._packer.sequence_length, self.counts
        joined = isinstance(self._packer, Joined)
        return {
            "format": FORMAT,
            "split": split,
            "sequence_length": length,
            "vocabulary_size": self._tokenizer.get_vocab_size(),
            **counts,
            "fill": counts["tokens"] / (counts["rows"] * length),
            "lines": self.lines.total,
            "skipped": self.lines.skipped,
            "repaired": self.lines.repaired,
            **({"joined": True, "segments": counts["rows"]} if joined else {}),
        }

    def _append(self, rows: list[bytearray]) -> None:
        # Pad with zero bytes, because the id of PAD is 0.
        padded = b"".join(row.ljust(self._packer.row_bytes, b"\0") for row in rows)
        self._add("rows", np.frombuffer(padded, PIECES))
        self.counts["rows"] += len(rows)


CHUNK = 2_000  # encode this many lines at a time


def pack(
    corpus: Corpus,
    folder: Path,
    tokenizer: Tokenizer,
    packer: Callable[[], FirstFit],
    marks: Sequence[int] = (PAD, END),
) -> None:
    """Encode a corpus chunk by chunk, and write the packed rows of each split to `folder/<split>`.

    Args:
        packer: a function that returns a new packer. It is called once for each split.
        marks: the tokenizer's ids for PAD and END.

    Raises:
        UserError: a split has no lines, or all of its lines were skipped.
    """
    with ExitStack() as stack:
        writers = {}
        for split in SPLITS:
            add = stack.enter_context(new_arrays(folder / split, {"rows": PIECES}))
            writers[split] = SplitWriter(add, tokenizer, packer(), marks)

        for chunk in batches(corpus.lines(), CHUNK):
            for split, writer in writers.items():
                writer.write([line for of, line in chunk if of == split])

        note_lines(corpus.name, *(writer.lines for writer in writers.values()))
        train, test = writers["train"].hashes(), writers["test"].hashes()
        note_repeats(corpus.name, "line", train, test)
        for split, writer in writers.items():
            if not writer.lines.kept:
                raise UserError(
                    f"{corpus.name} has no text in the split {split} (skipped lines: "
                    f"{writer.lines.total}); add more text, or break long lines."
                )
            writer.finish()

    for split, writer in writers.items():
        publish_json(folder / split / ABOUT, writer.about(split))


def ids_of(marks: Sequence[int]) -> Integers:
    """Return an array (V,) that maps each id on disk to the tokenizer's id.

    Args:
        marks: the tokenizer's ids for PAD and END, which may be equal.
    """
    others = np.delete(np.arange(LARGEST_VOCABULARY), marks)
    return np.concatenate((marks, others))


class LanguageModelSection(TextSection):
    """The section `task` of language modelling, as in conf/task/lm1b.yaml."""

    vocabulary_size: Annotated[int, whole(SMALLEST_BPE, LARGEST_VOCABULARY, 32_768)]
    tokenizer_lines: Annotated[int, whole(1, 10**9, 1_000_000)]
    # The default is for older records, which lack this key.
    joined: Annotated[bool, given("true or false", False)] = False
    # The planner sets these keys if the run starts from a published model. `tokenizer` is the name
    # of the data folder that has the model's tokenizer. `marks` are the ids that the tokenizer uses
    # for PAD and END. `longest` is the size of the model's sliding window, in tokens.
    tokenizer: str | None = None
    marks: list[int] = Field(default=[PAD, END])
    longest: int | None = None

    def problems(self, path: str = "") -> Iterator[Problem]:
        yield from super().problems(path)
        length, most = self.sequence_length, self.longest
        if most and length > most:
            expected = f"at most {most}, the sliding window of the published model"
            remedy = f"set {path}.sequence_length={most}"
            yield Problem(f"{path}.sequence_length", length, expected, remedy)


# When sentences are joined, put blocks of this many consecutive lines into the same split, so that
# most rows are consecutive text. 50 lines of LM1B fill about five rows of 256 tokens.
LINES_TOGETHER = 50


class PackedText(PreparedRows):
    """Batches of packed rows: `tokens`, `targets`, `segments` and `positions`, each (B, T).

    The targets of padding are IGNORED.
    """

    section: LanguageModelSection
    kind, format = "text", FORMAT
    published = Corpora()
    Rows = PackedRows
    shaping = (
        *("vocabulary_size", "sequence_length", "tokenizer_lines", "joined"),
        *("tokenizer", "marks"),
    )

    @staticmethod
    def spelled(content: Mapping[str, Any]) -> str:
        # Omit these keys if they have their default values. Older versions did not have the keys.
        # So the folder name stays the same, and data that older versions prepared are found.
        older = {"joined": False, "tokenizer": None, "marks": [PAD, END]}
        known = dict(item for item in content.items() if item not in older.items())
        return json.dumps(known, sort_keys=True)

    def make(self, folder: Path) -> None:
        section = self.section
        texts = self.published.texts(self.text, folder / "sample")
        corpus = Corpus(*texts, together=LINES_TOGETHER if section.joined else 1)
        lines = corpus.training_lines()
        tokenizer = tokenizer_at(folder, train_bpe, lines, section)
        kind = Joined if section.joined else FirstFit
        packer = partial(kind, section.sequence_length)
        pack(corpus, folder, tokenizer, packer, section.marks)

    def open(self, folder: Path) -> None:
        super().open(folder)
        self._ids_V = ids_of(self.section.marks)

    def take(self, split: str, numbers: np.ndarray) -> Batch:
        rows = self.splits[split].rows(numbers)
        rows |= {name: self._ids_V[rows[name]] for name in ("tokens", "targets")}
        batch = of_arrays(rows)
        batch["targets"].masked_fill_(batch["segments"] == 0, IGNORED)
        return batch
