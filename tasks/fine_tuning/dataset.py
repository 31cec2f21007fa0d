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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from sweeper.store.errors import NOTE, UserError, invalid_value
from sweeper.store.numbers import plural
from tasks.text.source import (
    BYTE_ORDER_MARK,
    NOT_UTF8,
    REPLACEMENT,
    Source,
    TextFiles,
    load_splits,
    name_of,
    note_files,
    note_repeats,
    visible,
)

# NUL and surrogates. JSON can spell a lone surrogate, but UTF-8 cannot encode it.
UNPRINTABLE = re.compile("[\ud800-\udfff\0]")
REPLACED = "characters replaced"


def load_file(path: Path) -> Any:
    """Read a whole file of JSON and return its value. Raise UserError if it is not JSON."""
    raw = path.read_bytes().removeprefix(BYTE_ORDER_MARK)
    try:
        return json.loads(decoded(raw))
    except (ValueError, RecursionError) as error:
        why = " ".join(str(error).split())
        raise UserError(
            f"{path} is not valid JSON ({why}); copy the file again."
        ) from error


def decoded(raw: bytes) -> str:
    """Decode UTF-8. Invalid bytes become surrogates, which `printable` replaces."""
    return raw.decode(errors="surrogateescape")


def row_of(raw: bytes | None) -> Any:
    """Parse a line of JSON. Return Malformed if it is empty, too long or not JSON.

    If the line is too long, `raw` is None.
    """
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


def mended(*texts: str) -> tuple[str, ...]:
    """Return (REPLACED,) if `printable` would change one of these texts, else ()."""
    return (REPLACED,) if any(map(UNPRINTABLE.search, texts)) else ()


PLACES = 5  # for each reason, name at most this many dropped rows
GOOD = 0.99  # warn if a smaller share of the rows is kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A usable row of a data set.

    Attributes:
        id: the row's id, or "" if the data set has no ids.
        mended: notes that say how the row was repaired.
    """

    id: str = ""
    mended: tuple[str, ...] = ()

    def texts(self) -> tuple[str, str]:
        """Return the two texts of the row. A tokenizer may be trained on them."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Malformed:
    """A row that cannot be used. `reason` says why."""

    reason: str


Kind = TypeVar("Kind", bound=Example)


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
        self, file: str, rows: Iterable[tuple[str, Kind | Malformed]]
    ) -> Iterator[Kind]:
        """Yield the usable rows of a file, and count kept and dropped rows.

        Drop rows that repeat an id.

        Args:
            file: the name of the file.
            rows: pairs of a place in the file, such as a line number, and the row that is there.
        """
        for place, row in rows:
            if not isinstance(row, Malformed) and row.id and row.id in self._ids:
                row = Malformed("duplicate id")
            if isinstance(row, Malformed):
                self._places.setdefault(f"{file}: {row.reason}", []).append(place)
                continue
            self._ids.add(row.id)
            self.kept += 1
            self.mended.update(f"{file}: {reason}" for reason in row.mended)
            yield row

    @property
    def dropped(self) -> dict[str, int]:
        """The number of dropped rows for each "file: reason"."""
        return {why: len(places) for why, places in sorted(self._places.items())}

    @property
    def dropped_in_words(self) -> str:
        listed = []
        for why, count in self.dropped.items():
            file, _, reason = why.partition(": ")
            listed.append(f"{plural(count, 'row')} of {file} ({reason})")
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
            share = 100 * self.kept / self.total
            kept = f"only {self.kept} of {self.total} rows are kept ({share:.1f} %)"
            yield f"{kept}. {self.dropped_in_words}"
        if odd := sum(n for why, n in self.mended.items() if why.endswith(REPLACED)):
            yield f"{plural(odd, 'row')} {NOT_UTF8}."


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
    def read_file(self, path: Path) -> Iterator[tuple[str, Kind | Malformed]]:
        """Yield (place in the file, example or Malformed) for every row of a file."""

    @abstractmethod
    def example_of(self, row: Mapping[str, Any]) -> Kind | Malformed:
        """Return the example of a row on the hub, or Malformed."""

    @abstractmethod
    def group(self, example: Kind) -> str:
        """Return the text that identifies the example's group, such as the paragraph of a question.

        All examples of a group are either in the training or in the validation split.
        """

    def trainable(self, example: Kind) -> Kind | Malformed:
        """Return the example if it can be trained on, or Malformed if it can only be evaluated."""
        return example

    def facts(
        self,
        kept: Mapping[str, Sequence[Kind]],
        reports: Mapping[str, RowReport],
        hub: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Return facts about the training rows, to add to about.json.

        Args:
            kept: the examples of each split.
            reports: the report on the rows of each split.
            hub: the splits on the hub by name, or {} if the data are not from the hub.

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
        reports: dict[str, RowReport] = {}
        kept: dict[str, list[Kind]] = {}
        hub = self._on_hub(data["hub"]) if data["source"] == "hub" else {}
        for split, parts in self._parts(data, folder, hub).items():
            report = reports[split] = RowReport()
            own = kept[split] = []
            for name, rows in parts:
                own += report.kept_of(name, self._usable(rows, split))
            if not own:
                raise UserError(
                    f"{self.describe(data)}: the {split} split has no usable row; repair the data, "
                    f"or name other data. {report.dropped_in_words}"
                )
            for note in report.notes():
                print(f"{NOTE}{self.title}, {split}: {note}", file=sys.stderr)

        facts = self.facts(kept, reports, hub)
        hashes = ([hash(example.texts()) for example in kept[split]] for split in kept)
        note_repeats(self.title, "row", *hashes)

        groups = self._held_out(kept["train"])
        splits: dict[str, list[Kind]] = {"train": [], "validation": []}
        for example in kept["train"]:
            held_out = self.group(example) in groups
            splits["validation" if held_out else "train"].append(example)

        about = {split: report.about() for split, report in reports.items()}
        about["train"] |= facts
        return {**splits, "test": kept["test"]}, about

    def _usable(
        self, rows: Iterable[tuple[str, Kind | Malformed]], split: str
    ) -> Iterator[tuple[str, Kind | Malformed]]:
        for place, row in rows:
            if split == "train" and not isinstance(row, Malformed):
                row = self.trainable(row)
            yield place, row

    def _held_out(self, examples: Sequence[Kind]) -> set[str]:
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
        """Return two splits of a data set on the hub: "train", and the split `self.hub_test`."""
        splits = load_splits(hub, self.columns)
        if self.hub_test not in splits:
            expected = f"a data set with a split named {self.hub_test}"
            remedy = "choose another data set"
            raise invalid_value("data.hub", name_of(hub), expected, remedy)
        return {name: splits[name] for name in ("train", self.hub_test)}

    def _parts(
        self, data: Mapping[str, Any], folder: Path, hub: Mapping[str, Any]
    ) -> dict[str, list[tuple[str, Iterator[tuple[str, Kind | Malformed]]]]]:
        """Return a dict from each split to a list of pairs (file name, rows).

        A split on the hub counts as one file, with the name of the split.
        """
        if hub:
            names = {"train": "train", "test": self.hub_test}
            return {split: [(of, self._rows(hub[of]))] for split, of in names.items()}
        found = self.files(self.root(data, folder))
        note_files(found)
        return {
            split: [(name, self.read_file(found.root / name)) for name in names]
            for split, names in (("train", found.train), ("test", found.test))
        }

    def _rows(self, split: Any) -> Iterator[tuple[str, Kind | Malformed]]:
        numbers = itertools.count(1)
        for batch in split.select_columns(list(self.columns)).iter(
            batch_size=HUB_BATCH
        ):
            for row in zip(*(batch[name] for name in self.columns), strict=True):
                found = self.example_of(dict(zip(self.columns, row, strict=True)))
                yield str(next(numbers)), found

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
            remedy = "copy them there" if root.is_dir() else "name a folder that exists"
            raise invalid_value(
                "data.root", root, f"a folder with {self.expected}", remedy
            )
        train, test = chosen
        return TextFiles(root, train, test, tuple(left_out))
