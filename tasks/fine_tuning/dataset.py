"""Data sets for fine-tuning, read from untrusted files: strict JSON, and a report on every row."""

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
from typing import Any, ClassVar, Generic, NoReturn, TypeVar

from sweeper.store.errors import NOTE, UserError, invalid_value
from sweeper.store.numbers import plural
from tasks.text.source import (
    BYTE_ORDER_MARK,
    NOT_UTF8,
    REPLACEMENT,
    UTF16_MARKS,
    Source,
    TextFiles,
    load_splits,
    name_of,
    note_files,
    note_repeats,
    visible,
)

# Half a character (JSON can spell one, UTF-8 cannot hold it) and NUL.
UNPRINTABLE = re.compile("[\ud800-\udfff\0]")
REPLACED = "characters replaced"


def load(text: str) -> Any:
    """Return the value of JSON; ValueError for NaN, infinities, a key twice, deep nesting."""

    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is no JSON number")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) != len(pairs):
            raise ValueError("a key comes twice in one object")
        return value

    try:
        return json.loads(text, parse_constant=refuse, object_pairs_hook=unique)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def load_file(path: Path, read: Callable[[str], Any] = load) -> Any:
    """Return what `read` makes of a whole file; UserError if it cannot be read or is not JSON."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UserError(
            f"{path} cannot be read ({error.strerror}); make it readable."
        ) from error
    if raw.startswith(UTF16_MARKS):
        raise UserError(f"{path} is UTF-16: expected UTF-8; save it as UTF-8.")
    try:
        return read(decoded(raw.removeprefix(BYTE_ORDER_MARK)))
    except (ValueError, RecursionError) as error:
        why = " ".join(str(error).split())
        raise UserError(
            f"{path} is not JSON ({why}); bring the whole file again."
        ) from error


def decoded(raw: bytes) -> str:
    """Return the text; bytes that are not UTF-8 become surrogates, which `printable` replaces."""
    return raw.decode(errors="surrogateescape")


def row_of(raw: bytes | None) -> Any:
    """Return the value of a line of JSON, or Malformed; None stands for a line that is too long."""
    if raw is None:
        return Malformed("too long")
    if not raw.strip():
        return Malformed("empty line")
    try:
        return load(decoded(raw))
    except ValueError:
        return Malformed("not JSON")


def printable(text: str) -> str:
    """Return the text with NUL and surrogates replaced, character for character."""
    return UNPRINTABLE.sub(REPLACEMENT, text)


def mended(*texts: str) -> tuple[str, ...]:
    """Return a note if `printable` replaces characters of these texts."""
    return (REPLACED,) if any(map(UNPRINTABLE.search, texts)) else ()


PLACES = 5  # of the rows dropped for one reason, how many are named
GOOD = 0.99  # warn if a smaller share of the rows is kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A row that can be learned from. `id` is empty where the data set gives none."""

    id: str = ""
    mended: tuple[str, ...] = ()

    def texts(self) -> tuple[str, str]:
        """Return the texts that a tokenizer may be trained on."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Malformed:
    """A row that cannot be, and why."""

    reason: str


Kind = TypeVar("Kind", bound=Example)


class RowReport:
    """Counts the rows of one split; `kept` plus all dropped is `total`, exactly.

    Attributes:
        mended: the number of rows that were repaired, by "file: reason".
    """

    def __init__(self) -> None:
        self.kept = 0
        self.mended: Counter[str] = Counter()
        self._places: dict[str, list[str]] = {}  # of dropped rows, by "file: reason"
        self._ids: set[str] = set()

    def kept_of(
        self, file: str, rows: Iterable[tuple[str, Kind | Malformed]]
    ) -> Iterator[Kind]:
        """Yield the good ones of (place in the file, row), of rows with one id the first."""
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
        """The number of dropped rows by "file: reason"."""
        return {why: len(places) for why, places in sorted(self._places.items())}

    @property
    def dropped_in_words(self) -> str:
        return ", ".join(f"{count} x {why}" for why, count in self.dropped.items())

    @property
    def total(self) -> int:
        return self.kept + sum(self.dropped.values())

    def about(self) -> dict[str, Any]:
        """Return the counts and the first places as plain values."""
        places = {why: self._places[why][:PLACES] for why in self.dropped}
        return {
            "read": self.total,
            "kept": self.kept,
            "dropped": self.dropped,
            "places": places,
            "mended": dict(sorted(self.mended.items())),
        }

    def notes(self) -> Iterator[str]:
        """Yield a sentence if less than 99 % of the rows are kept, and one on replaced letters."""
        if self.kept < GOOD * self.total:
            share = 100 * self.kept / self.total
            kept = f"only {self.kept} of {self.total} rows are kept ({share:.1f} %)"
            yield f"{kept}: {self.dropped_in_words}."
        if odd := sum(n for why, n in self.mended.items() if why.endswith(REPLACED)):
            yield f"{plural(odd, 'row')} {NOT_UTF8}."


VALIDATION = 0.02  # of the training texts, kept back
HUB_BATCH = 1000  # rows


class DataSet(Source, ABC, Generic[Kind]):
    """The published form of one data set, which has two splits, and the reader of its examples."""

    title: ClassVar[str]
    train: ClassVar[re.Pattern[str]]
    test: ClassVar[re.Pattern[str]]
    """The names of the files of the two splits; `expected` says them to a person."""
    expected: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]
    """The endings of such names. If a split has several formats, the first one here is read."""
    columns: ClassVar[tuple[str, ...]]
    hub_test: ClassVar[str]
    """The columns of a row on the Hub, and the name of the split there that is the test split."""

    @abstractmethod
    def read_file(self, path: Path) -> Iterator[tuple[str, Kind | Malformed]]:
        """Yield (place, example or what is wrong with it) of every row of a file."""

    @abstractmethod
    def example_of(self, row: Mapping[str, Any]) -> Kind | Malformed:
        """Return the example of a row as the Hub has it, or what is wrong with it."""

    @abstractmethod
    def group(self, example: Kind) -> str:
        """Return the text whose examples are never divided between training and validation."""

    def trainable(self, example: Kind) -> Kind | Malformed:
        """Tell what can be trained on from what can only be evaluated."""
        return example

    def facts(
        self,
        kept: Mapping[str, Sequence[Kind]],
        reports: Mapping[str, RowReport],
        hub: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Return what else is known of the rows; raise UserError if they cannot be learned from.

        `hub`: the splits, if they are on the hub.
        """
        return {}

    def describe(self, data: Mapping[str, Any]) -> str:
        return f"{self.title}: {super().describe(data)}"

    def load(
        self, data: Mapping[str, Any], folder: Path
    ) -> tuple[dict[str, list[Kind]], dict[str, dict[str, Any]]]:
        """Return the examples of each split, and the counts of rows of the two that are read.

        UserError if one is empty. `folder` is where a sample is kept.
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
                why = report.dropped_in_words or "no rows"
                raise UserError(
                    f"{self.describe(data)}: nothing is left to {split} on ({why}); mend the data "
                    "or name others."
                )
            for note in report.notes():
                print(f"{NOTE}{self.title}, {split}: {note}", file=sys.stderr)

        facts = self.facts(kept, reports, hub)
        hashes = ([hash(example.texts()) for example in kept[split]] for split in kept)
        note_repeats(self.title, "row", *hashes)
        back = self._kept_back(kept["train"])
        splits: dict[str, list[Kind]] = {"train": [], "validation": []}
        for example in kept["train"]:
            held_out = self.group(example) in back
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

    def _kept_back(self, examples: Sequence[Kind]) -> set[str]:
        """Return the groups kept back for validation, whose texts have the smallest checksums."""
        groups = {self.group(example) for example in examples}
        if len(groups) < 2:
            said = f"{self.title} has a single training text; give it more data."
            raise UserError(said)
        ordered = sorted(groups, key=lambda text: (zlib.crc32(text.encode()), text))
        return set(ordered[: max(1, round(len(groups) * VALIDATION))])

    def _on_hub(self, hub: Mapping[str, Any]) -> dict[str, Any]:
        """Return the splits `train` and `hub_test` of a data set on the hub."""
        splits = load_splits(hub, self.columns)
        if self.hub_test not in splits:
            expected = f"a data set with a split {self.hub_test}"
            raise invalid_value("data.hub", name_of(hub), expected, "choose another")
        return {name: splits[name] for name in ("train", self.hub_test)}

    def _parts(
        self, data: Mapping[str, Any], folder: Path, hub: Mapping[str, Any]
    ) -> dict[str, list[tuple[str, Iterator[tuple[str, Kind | Malformed]]]]]:
        """Return the (name, rows) that each split is made of."""
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
            longer = (
                name for name, last in names.items() if pattern.match(last)
            )  # as .jsonl.gz
            left_out += [name for name in longer if name not in own]
        if not all(chosen):
            remedy = "put them there" if root.is_dir() else "name one that exists"
            raise invalid_value(
                "data.root", root, f"a folder with {self.expected}", remedy
            )
        train, test = chosen
        return TextFiles(root, train, test, tuple(left_out))
