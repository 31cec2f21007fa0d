"""The data of all fine-tuning tasks: rows that consist of two texts.

A row is [CLS] first text [SEP] second text [SEP]. The folder of a split has `about.json` and these
arrays:

- `pieces`: the token ids of all rows, one row after the other.
- `rows`: for each row, the index of its first token in `pieces`. The last element is N.
- one array of whole numbers for each further column, such as `labels`.

Shapes: N tokens of a split, R rows of a split, B rows of a batch, T positions of a padded row.
"""

import itertools
import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from tokenizers import Encoding, Tokenizer

from sweeper.store.errors import UserError, invalid_value
from sweeper.store.files import publish_json
from tasks.batch import Batch, Integers, of_arrays
from tasks.config.schema import given, whole
from tasks.config.sections import WordPieceSection
from tasks.data import PreparedRows
from tasks.fine_tuning.dataset import DataSet
from tasks.text.corpus import PIECES, STARTS, mapped, new_arrays
from tasks.text.source import SPLITS, batches
from tasks.text.tokenizer import tokenizer_at, train_wordpiece

FORMAT = 2
ABOUT = "about.json"
ROUND = 32  # pad rows to a multiple of this length, so that batches have few shapes
SPECIAL_TOKENS = 3  # each row has one [CLS] and two [SEP]


def marks_of(tokenizer: Tokenizer) -> tuple[int, int]:
    """Return the ids of [CLS] and [SEP]. Raise UserError if the tokenizer lacks one of them."""
    first, between = (tokenizer.token_to_id(mark) for mark in ("[CLS]", "[SEP]"))
    if first is None or between is None:
        raise UserError(
            "the parent's tokenizer lacks [CLS] or [SEP]; set parent to a run of task=pretraining."
        )
    return first, between


def write(
    folder: Path,
    rows: Sequence[Sequence[int]],
    columns: Mapping[str, Sequence[int]],
    about: Mapping[str, Any],
) -> None:
    """Write the rows of a split to a folder.

    Args:
        rows: the token ids of each row.
        columns: the values of each column, one for each row. The column `seconds` is required (see
            `Sequences`).
        about: entries to add to about.json.
    """
    pieces = np.fromiter(itertools.chain.from_iterable(rows), PIECES)
    starts = np.cumsum([0, *map(len, rows)]).tolist()
    arrays = {"rows": starts, **columns}
    with new_arrays(folder, {"pieces": PIECES} | dict.fromkeys(arrays, STARTS)) as add:
        add("pieces", pieces)
        for name, values in arrays.items():
            add(name, values)

    facts = {
        "format": FORMAT,
        "rows": len(rows),
        "pieces": len(pieces),
        "columns": sorted(columns),
        "largest_piece": int(pieces.max(initial=0)),
    }
    publish_json(folder / ABOUT, {**facts, **about})


class Sequences:
    """The rows of a split, read from its folder.

    Attributes:
        about: the content of about.json.
        columns: the arrays (R,) of all columns, by name. The column `seconds` is the position in
            the row at which the second text begins.
    """

    def __init__(self, folder: Path) -> None:
        self.about: Mapping[str, Any] = json.loads((folder / ABOUT).read_bytes())
        count = self.about["rows"]
        self._pieces_N = mapped(folder, "pieces", PIECES, self.about["pieces"])
        self._starts = mapped(folder, "rows", STARTS, count + 1)
        self.columns = {
            name: mapped(folder, name, STARTS, count) for name in self.about["columns"]
        }

    def __len__(self) -> int:
        return len(self._starts) - 1

    def rows(self, numbers: Integers, longest: int) -> dict[str, np.ndarray]:
        """Return the arrays `tokens`, `token_type_ids` and `attention_mask` of the given rows.

        Each array has the shape (B, T). T is the length of the longest of these rows, rounded up to
        a multiple of ROUND, but at most `longest`. Padding is 0 in all arrays.
        """
        starts_B = self._starts[numbers]
        lengths_B = self._starts[numbers + 1] - starts_B
        padded = -(-int(lengths_B.max()) // ROUND) * ROUND
        positions_T = np.arange(min(padded, longest))
        attention_mask_BT = positions_T < lengths_B[:, None]
        places_BT = np.minimum(starts_B[:, None] + positions_T, len(self._pieces_N) - 1)

        tokens_BT = self._pieces_N[places_BT].astype(np.int64) * attention_mask_BT
        seconds_B1 = self.columns["seconds"][numbers][:, None]
        token_type_ids_BT = (positions_T >= seconds_B1) & attention_mask_BT
        return {
            "tokens": tokens_BT,
            "token_type_ids": token_type_ids_BT.astype(np.int64),
            "attention_mask": attention_mask_BT,
        }


CHUNK = 1000  # encode this many texts at a time


class FineTuningSection(WordPieceSection):
    """The base class of the section `task` for fine-tuning tasks."""

    tokenizer: Annotated[
        str | None, given("the name of the parent's prepared data, or null", None)
    ]
    sequence_length: Annotated[int, whole(SPECIAL_TOKENS + 2, 65_536, 128)]


class ExampleData(PreparedRows):
    """The base class of the data of fine-tuning tasks.

    A batch has the arrays that `Sequences.rows` returns, each (B, T). It also has the columns that
    the attribute `columns` lists, such as `labels`, each (B,).
    """

    section: FineTuningSection
    format = FORMAT
    Rows = Sequences
    shaping: ClassVar[tuple[str, ...]] = (
        "tokenizer",
        "vocabulary_size",
        "tokenizer_lines",
        "sequence_length",
    )
    published: ClassVar[DataSet[Any]]
    columns: ClassVar[tuple[str, ...]]

    def make(self, folder: Path) -> None:
        section = self.section
        examples, rows = self.published.load(self.text, folder / "sample")
        texts = (example.texts() for example in examples["train"])
        different = dict.fromkeys(itertools.chain.from_iterable(texts))
        tokenizer = tokenizer_at(folder, train_wordpiece, different, section)

        about = {**rows, "validation": {}}
        about["test"]["baselines"] = self.measured_baselines(examples)
        for split in SPLITS:
            self.write_split(folder / split, tokenizer, examples[split], about[split])

    @abstractmethod
    def write_split(
        self,
        folder: Path,
        tokenizer: Tokenizer,
        examples: list[Any],
        about: Mapping[str, Any],
    ) -> None:
        """Encode the examples of a split and write them to `folder` with `write`.

        Args:
            about: entries to add to about.json.
        """

    @abstractmethod
    def measured_baselines(self, splits: Mapping[str, list[Any]]) -> dict[str, float]:
        """Return the scores of baselines on the test split, such as `majority_accuracy`.

        Args:
            splits: the examples of each split.
        """

    def open(self, folder: Path) -> None:
        super().open(folder)
        largest = max(one.about["largest_piece"] for one in self.splits.values())
        size = self.section.vocabulary_size
        if largest >= size:  # PyTorch would raise an error that does not name the key
            expected = f"more than {largest}, the largest token id in the data"
            remedy = "copy the vocabulary size of the run that trained the tokenizer"
            raise invalid_value("task.vocabulary_size", size, expected, remedy)
        self.baselines: dict[str, float] = self.splits["test"].about["baselines"]

    def take(self, split: str, numbers: np.ndarray) -> Batch:
        rows = self.splits[split]
        arrays = rows.rows(numbers, self.section.sequence_length)
        arrays.update({name: rows.columns[name][numbers] for name in self.columns})
        return of_arrays(arrays)


def encodings(tokenizer: Tokenizer, texts: Sequence[str]) -> Iterator[Encoding]:
    """Yield the encoding of each text, without special tokens.

    An encoding has the token ids in `ids`, and the start and the end of each token, in characters,
    in `offsets`.
    """
    for chunk in batches(texts, CHUNK):
        yield from tokenizer.encode_batch(chunk, add_special_tokens=False)
