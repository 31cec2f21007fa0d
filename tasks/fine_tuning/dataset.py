"""Functions and a base class that read fine-tuning data sets from untrusted files.

Every row is either kept or counted as dropped, with the reason.
"""

import itertools
import json
import re
import sys
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from sweeper.store.errors import NOTE, UserError, invalid_value
from sweeper.store.numbers import plural
from tasks.text.source import (
    NOT_UTF8,
    REPLACEMENT,
    Source,
    TextFiles,
    load_splits,
    name_of,
    note_files,
    note_repeats,
    raw_lines_of_file,
    visible,
)

# NUL and surrogates. JSON can spell a lone surrogate, but UTF-8 cannot encode it.
UNPRINTABLE = re.compile("[\ud800-\udfff\0]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A usable row of a data set.

    Attributes:
        id: the row's id, or "" if the data set has no ids.
        mended: True if `printable` has replaced characters of the row.
    """

    id: str = ""
    mended: bool = False

    def texts(self) -> tuple[str, str]:
        """Return the two texts of the row. A tokenizer may be trained on them."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Malformed:
    """A row that cannot be used. `reason` says why."""

    reason: str


Kind = TypeVar("Kind", bound=Example)
Rows = Iterator[tuple[str, Any]]
"""Pairs of a place in a file, such as a line number, and the row that is there.

A row is usually a dict of named fields. It may be any other value of JSON, or Malformed.
"""


def decoded(raw: bytes) -> str:
    """Decode UTF-8. Invalid bytes become surrogates, which `printable` replaces."""
    return raw.decode(errors="surrogateescape")


def json_rows(path: Path) -> Rows:
    """Yield the rows of a file with a value of JSON on each line."""
    for number, raw in enumerate(raw_lines_of_file(path), 1):
        yield str(number), _json_row(raw)


def _json_row(raw: bytes | None) -> Any:
    if raw is None:
        return Malformed("too long")
    if not raw.strip():
        return Malformed("empty line")
    try:
        return json.loads(decoded(raw))
    except (ValueError, RecursionError):  # deeply nested JSON raises RecursionError
        return Malformed("not JSON")


def printable(text: str) -> str:
    """Replace each NUL and each surrogate of a text by one replacement character."""
    return UNPRINTABLE.sub(REPLACEMENT, text)


PLACES = 5  # for each reason, name at most this many dropped rows
GOOD = 0.99  # warn if a smaller share of the rows is kept


class RowReport:
    """A report on the kept, repaired and dropped rows of one split.

    Attributes:
        kept: the number of kept rows, including repaired ones.
        mended: for each "file: reason", the number of repaired rows.
    """

    def __init__(self) -> None:
        self.kept = 0
        self.mended: Counter[str] = Counter()
        # The places of dropped rows, keyed by "file: reason".
        self._places: dict[str, list[str]] = {}
        self._ids: set[str] = set()

    def kept_of(
        self, file: str, rows: Rows, example_of: Callable[[Any], Kind | Malformed]
    ) -> Iterator[Kind]:
        """Yield the examples of the usable rows of a file, and count kept and dropped rows.

        Drop rows that repeat an id.

        Args:
            file: the name of the file.
            example_of: a function that converts a row to an example, or returns Malformed.
        """
        for place, row in rows:
            found = row if isinstance(row, Malformed) else example_of(row)
            if isinstance(found, Example) and found.id and found.id in self._ids:
                found = Malformed("duplicate id")
            if isinstance(found, Malformed):
                self._places.setdefault(f"{file}: {found.reason}", []).append(place)
                continue

            self._ids.add(found.id)
            self.kept += 1
            if found.mended:
                self.mended[f"{file}: characters replaced"] += 1
            yield found

    @property
    def dropped(self) -> dict[str, int]:
        """The number of dropped rows for each "file: reason"."""
        return {why: len(places) for why, places in sorted(self._places.items())}

    @property
    def dropped_in_words(self) -> str:
        counts = self.dropped.items()
        listed = (f"{plural(count, 'row')} ({why})" for why, count in counts)
        return f"Dropped: {', '.join(listed) or 'no row'}."

    @property
    def total(self) -> int:
        return self.kept + sum(self.dropped.values())

    def about(self) -> dict[str, Any]:
        """Return the counts, and the places of some dropped rows, for about.json."""
        places = {why: self._places[why][:PLACES] for why in self.dropped}
        return {
            "read": self.total,
            "kept": self.kept,
            "dropped": self.dropped,
            "places": places,
            "mended": dict(sorted(self.mended.items())),
        }

    def notes(self) -> Iterator[str]:
        """Yield a warning if too few rows are kept, and another if characters were replaced."""
        if self.kept < GOOD * self.total:
            kept = f"only {self.kept} of {self.total} rows are kept"
            yield f"{kept}. {self.dropped_in_words}"
        if self.mended:
            yield f"{plural(self.mended.total(), 'row')} {NOT_UTF8}."


# Hold out this share of the training set's groups (see `DataSet.group`) for validation.
VALIDATION = 0.02
HUB_BATCH = 1000  # read this many rows of the hub at a time


class DataSet(Source, ABC, Generic[Kind]):
    """The reader of a published data set with a training and a test split."""

    title: ClassVar[str]
    """The name of the data set in messages."""
    train: ClassVar[re.Pattern[str]]
    """The pattern for the names of training files."""
    test: ClassVar[re.Pattern[str]]
    """The pattern for the names of test files."""
    expected: ClassVar[str]
    """A description of the names of both kinds of files, for messages."""
    suffixes: ClassVar[tuple[str, ...]]
    """The suffixes of files, the preferred one first. The files of a split have equal suffixes."""
    columns: ClassVar[tuple[str, ...]]
    """The columns to read from the hub."""
    hub_test: ClassVar[str]
    """The name of the test split on the hub."""

    @abstractmethod
    def read_file(self, path: Path) -> Rows:
        """Yield the rows of a file; raise UserError if the file has an unknown format."""

    @abstractmethod
    def example_of(self, row: Any) -> Kind | Malformed:
        """Return the example of a row, or Malformed if the row cannot be used."""

    def training_example(self, row: Any) -> Kind | Malformed:
        """Return the example of a row, or Malformed if it cannot be trained on."""
        return self.example_of(row)

    @abstractmethod
    def group(self, example: Kind) -> str:
        """Return the text that identifies the example's group, such as the paragraph of a question.

        All examples of a group are either in the training or in the validation split.
        """

    def facts(
        self, kept: Mapping[str, Sequence[Kind]], hub: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return facts about the training rows, to add to about.json.

        Args:
            kept: the examples of each split.
            hub: the splits on the hub, or {} if the data are not from the hub.

        Raises:
            UserError: the rows cannot be trained on.
        """
        return {}

    def describe(self, data: Mapping[str, Any]) -> str:
        return f"{self.title}: {super().describe(data)}"

    def load(
        self, data: Mapping[str, Any], folder: Path
    ) -> tuple[dict[str, list[Kind]], dict[str, dict[str, Any]]]:
        """Read the data set, and hold out a part of the training rows for validation.

        Generated text is first written to `folder`.

        Returns:
            The examples of each split, and the facts about "train" and "test" for about.json.

        Raises:
            UserError: a split has no usable row.
        """
        hub = self._on_hub(data["hub"]) if data["source"] == "hub" else {}
        files = self._hub_files(hub) if hub else self._local_files(data, folder)
        kept: dict[str, list[Kind]] = {}
        about: dict[str, dict[str, Any]] = {}

        for split, rows_of_files in files.items():
            report, own = RowReport(), list[Kind]()
            of_row = self.training_example if split == "train" else self.example_of
            for name, rows in rows_of_files.items():
                own += report.kept_of(name, rows, of_row)
            if not own:
                raise UserError(
                    f"{self.describe(data)}: the {split} split has no usable row; repair the data, "
                    f"or name other data. {report.dropped_in_words}"
                )
            for note in report.notes():
                print(f"{NOTE}{self.title}, {split}: {note}", file=sys.stderr)
            kept[split], about[split] = own, report.about()

        about["train"] |= self.facts(kept, hub)
        hashes = ([hash(example.texts()) for example in own] for own in kept.values())
        note_repeats(self.title, "row", *hashes)

        groups = self._held_out(kept["train"])
        splits: dict[str, list[Kind]] = {"train": [], "validation": []}
        for example in kept["train"]:
            held_out = self.group(example) in groups
            splits["validation" if held_out else "train"].append(example)
        return {**splits, "test": kept["test"]}, about

    def _held_out(self, examples: Iterable[Kind]) -> set[str]:
        """Return the groups with the smallest checksums, which form the validation split."""
        groups = {self.group(example) for example in examples}
        if len(groups) < 2:
            raise UserError(
                f"{self.title} has a single training text, but the validation split needs another; "
                "add more data."
            )
        ordered = sorted(groups, key=lambda text: (zlib.crc32(text.encode()), text))
        return set(ordered[: max(1, round(len(groups) * VALIDATION))])

    def _on_hub(self, hub: Mapping[str, Any]) -> dict[str, Any]:
        """Return the splits "train" and "test" of a data set on the hub."""
        splits = load_splits(hub, self.columns)
        if self.hub_test not in splits:
            expected = f"a data set with a split named {self.hub_test}"
            remedy = "choose another data set"
            raise invalid_value("data.hub", name_of(hub), expected, remedy)
        return {"train": splits["train"], "test": splits[self.hub_test]}

    def _hub_files(self, hub: Mapping[str, Any]) -> dict[str, dict[str, Rows]]:
        """Return the rows of each split. A split is one file, with the split's name on the hub."""
        names = {"train": "train", "test": self.hub_test}
        return {split: {name: self._rows(hub[split])} for split, name in names.items()}

    def _rows(self, split: Any) -> Rows:
        numbers = itertools.count(1)
        chosen = split.select_columns(list(self.columns))
        for batch in chosen.iter(batch_size=HUB_BATCH):
            for row in zip(*(batch[name] for name in self.columns), strict=True):
                yield str(next(numbers)), dict(zip(self.columns, row, strict=True))

    def _local_files(
        self, data: Mapping[str, Any], folder: Path
    ) -> dict[str, dict[str, Rows]]:
        """Return the rows of each split, by file."""
        found = self.files(self.root(data, folder))
        note_files(found)
        return {
            split: {name: self.read_file(found.root / name) for name in names}
            for split, names in (("train", found.train), ("test", found.test))
        }

    def files(self, root: Path) -> TextFiles:
        chosen, left_out = [], list[str]()
        names = {name: name.rsplit("/", 1)[-1] for name in visible(root)}
        for pattern in (self.train, self.test):
            own = [name for name, last in names.items() if pattern.fullmatch(last)]
            by_suffix = (
                tuple(name for name in own if name.endswith(s)) for s in self.suffixes
            )
            chosen.append(next(filter(None, by_suffix), ()))
            # Files with a further suffix, such as .jsonl.gz, are reported as left out.
            longer = (name for name, last in names.items() if pattern.match(last))
            left_out += [name for name in longer if name not in own]

        if not all(chosen):
            expected = f"a folder with {self.expected}"
            raise invalid_value(
                "data.root", root, expected, "add them, or name another"
            )
        train, test = chosen
        return TextFiles(root, train, test, tuple(left_out))
