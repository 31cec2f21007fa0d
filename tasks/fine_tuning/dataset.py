"""Functions and a base class that read fine-tuning data sets from untrusted files.

Rows that cannot be used are dropped and counted by the reason.
"""

import json
import re
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from sweeper.store.errors import UserError, invalid_value
from sweeper.store.numbers import plural
from tasks.text.source import (
    REPLACEMENT,
    Config,
    Source,
    TextFiles,
    load_splits,
    note,
    note_files,
    note_repeats,
    raw_lines_of_file,
    visible,
)

# NUL and surrogates. UTF-8 cannot encode surrogates. They come from escapes in JSON and from
# `decoded`.
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
    """The result for a row that cannot be used, with the reason, such as "no gold label"."""

    reason: str


Kind = TypeVar("Kind", bound=Example)
Rows = Iterator[tuple[str, Any]]
"""Pairs of a row's place in its file, such as a line number, and the row.

A row is usually a dict of named fields. It may also be any other JSON value, or Malformed.
"""


def decoded(raw: bytes) -> str:
    """Decode UTF-8. Invalid bytes become surrogates. Call `printable` later to replace these."""
    return raw.decode(errors="surrogateescape")


def json_rows(path: Path) -> Rows:
    """Yield the rows of a file that has a JSON value on each line."""
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
    """Replace each NUL and each surrogate of a text by U+FFFD, the replacement character."""
    return UNPRINTABLE.sub(REPLACEMENT, text)


REPLACED = "contained NUL or invalid UTF-8, which was replaced; repair the text"
PLACES = 5  # for each reason, a report tells where the first 5 dropped rows are
GOOD = 0.99  # warn if a smaller share of the rows is kept


def kept_rows(
    files: Mapping[str, Rows], example_of: Callable[[Any], Kind | Malformed]
) -> tuple[list[Kind], dict[str, Any]]:
    """Return the examples of the usable rows of a split, and a report for about.json.

    Rows that repeat an id are dropped.

    Args:
        files: the rows of each file, by the name of the file.
        example_of: a function that converts a row to an example, or returns Malformed.

    Returns:
        The examples, and the report, a dict with the keys:

        - read: the number of all rows.
        - kept: the number of usable rows.
        - dropped: the number of dropped rows by reason, such as "train.jsonl: no gold label".
        - places: where the first dropped rows are in their file, such as line numbers, by reason.
        - mended: the number of rows with replaced characters, by file and reason, such as
          "train.jsonl: characters replaced".
    """
    kept, ids = list[Kind](), set[str]()
    mended = Counter[str]()
    places = dict[str, list[str]]()  # the places of dropped rows, by reason
    for file, rows in files.items():
        for place, row in rows:
            found = row if isinstance(row, Malformed) else example_of(row)
            if isinstance(found, Example) and found.id and found.id in ids:
                found = Malformed("duplicate id")
            if isinstance(found, Malformed):
                places.setdefault(f"{file}: {found.reason}", []).append(place)
                continue

            ids.add(found.id)
            kept.append(found)
            if found.mended:
                mended[f"{file}: characters replaced"] += 1

    dropped = {why: len(places[why]) for why in sorted(places)}
    report = {
        "read": len(kept) + sum(dropped.values()),
        "kept": len(kept),
        "dropped": dropped,
        "places": {why: places[why][:PLACES] for why in dropped},
        "mended": dict(sorted(mended.items())),
    }
    return kept, report


def dropped_in_words(report: Mapping[str, Any]) -> str:
    counts = report["dropped"].items()
    listed = (f"{plural(count, 'row')} ({why})" for why, count in counts)
    return f"Dropped: {', '.join(listed) or 'no row'}."


def notes(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield the notes on a report of `kept_rows`, if any.

    There is a note if less than the share GOOD of the rows is kept, and one if characters of a row
    were replaced.
    """
    if report["kept"] < GOOD * report["read"]:
        kept = f"only {report['kept']} of {report['read']} rows are kept"
        yield f"{kept}. {dropped_in_words(report)}"
    if mended := sum(report["mended"].values()):
        yield f"{plural(mended, 'row')} {REPLACED}."


# Training examples with the same first text, such as a paragraph, form a group. This share of the
# groups becomes the validation split.
VALIDATION = 0.02


class DataSet(Source, ABC, Generic[Kind]):
    """The base class of the readers of published data sets, with a training and a test split."""

    title: ClassVar[str]
    """The name of the data set in messages."""
    train: ClassVar[re.Pattern[str]]
    """The pattern that the names of training files match."""
    test: ClassVar[re.Pattern[str]]
    """The pattern that the names of test files match."""
    expected: ClassVar[str]
    """A description of the required training and test files, for messages."""
    suffixes: ClassVar[tuple[str, ...]]
    """The suffixes of files, in order of preference.

    If a split has files with several suffixes, only those with the preferred suffix are read.
    """
    columns: ClassVar[tuple[str, ...]]
    """The columns to read from the hub."""
    hub_test: ClassVar[str]
    """The name of the test split on the hub."""

    @abstractmethod
    def read_file(self, path: Path) -> Rows:
        """Yield the rows of a file. Raise UserError if the file has an unknown format."""

    @abstractmethod
    def example_of(self, row: Any) -> Kind | Malformed:
        """Convert a row to an example, or return Malformed if the row cannot be used."""

    def training_example(self, row: Any) -> Kind | Malformed:
        """Convert a row of the training split to an example.

        Return Malformed if the row cannot be used for training. By default, all rows that can be
        used for a test can be used for training.
        """
        return self.example_of(row)

    def facts(
        self, kept: Mapping[str, Sequence[Kind]], hub: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return entries to add to the about.json of the training split.

        Args:
            kept: the examples of each split.
            hub: the splits on the hub by name, or {} if the data are not from the hub.

        Raises:
            UserError: the examples cannot be used for training.
        """
        return {}

    def describe(self, data: Config) -> str:
        return f"{self.title}: {super().describe(data)}"

    def load(
        self, data: Config, folder: Path
    ) -> tuple[dict[str, list[Kind]], dict[str, dict[str, Any]]]:
        """Read the data set, and hold out a part of the training rows for validation.

        Generated text is first written to `folder`.

        Returns:
            The examples of each split, and the contents of about.json for "train" and "test".

        Raises:
            UserError: a split has no usable row.
        """
        hub = dict[str, Any]()
        if data["source"] == "hub":
            hub = load_splits(data["hub"], ("train", self.hub_test), self.columns)
            # On the hub, a split counts as one file with the name of the split.
            files = {
                "train": {"train": self._hub_rows(hub["train"])},
                "test": {self.hub_test: self._hub_rows(hub[self.hub_test])},
            }
        else:
            files = self._local_files(data, folder)
        kept: dict[str, list[Kind]] = {}
        about: dict[str, dict[str, Any]] = {}

        for split, own in files.items():
            convert = self.training_example if split == "train" else self.example_of
            kept[split], about[split] = kept_rows(own, convert)
            if not kept[split]:
                raise UserError(
                    f"{self.describe(data)}: the {split} split has no usable row; repair the data, "
                    f"or choose other data. {dropped_in_words(about[split])}"
                )
            for said in notes(about[split]):
                note(f"{self.title}, {split}", said)

        about["train"] |= self.facts(kept, hub)
        hashes = ([hash(example.texts()) for example in own] for own in kept.values())
        note_repeats(self.title, "row", *hashes)

        groups = self._held_out(kept["train"])
        splits: dict[str, list[Kind]] = {"train": [], "validation": []}
        for example in kept["train"]:
            held_out = example.texts()[0] in groups
            splits["validation" if held_out else "train"].append(example)
        return {**splits, "test": kept["test"]}, about

    def _held_out(self, examples: Iterable[Kind]) -> set[str]:
        """Choose the examples for the validation split by the checksum of their first text.

        The first text of a SQuAD example is the paragraph. That of an MNLI example is the premise.
        So all questions about a paragraph are in the same split.

        Returns:
            The first texts of the chosen examples.
        """
        groups = {example.texts()[0] for example in examples}
        if len(groups) < 2:
            raise UserError(
                f"{self.title}: all training rows have the same first text (paragraph or premise), "
                "but the validation split needs rows with a different first text; add more data."
            )
        ordered = sorted(groups, key=lambda text: (zlib.crc32(text.encode()), text))
        return set(ordered[: max(1, round(len(groups) * VALIDATION))])

    def _hub_rows(self, split: Any) -> Rows:
        for number, row in enumerate(split.select_columns(list(self.columns)), 1):
            yield str(number), row

    def _local_files(self, data: Config, folder: Path) -> dict[str, dict[str, Rows]]:
        """Return the rows of the local files, by split and then by the name of the file."""
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
            # Files with an additional suffix, such as .jsonl.gz, are left out. A note names them.
            longer = (name for name, last in names.items() if pattern.match(last))
            left_out += [name for name in longer if name not in own]

        if not all(chosen):
            expected = f"a folder with {self.expected}"
            raise invalid_value(
                "data.root", root, expected, "add them, or choose another folder"
            )
        train, test = chosen
        return TextFiles(root, train, test, tuple(left_out))
