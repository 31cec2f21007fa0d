"""What became of the rows of a data set: kept, mended, or dropped, and where and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

PLACES = 5  # of the rows dropped for one reason, how many are named
GOOD = 0.99  # a data set of which less is kept deserves a warning


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A row that can be learned from. `id` is empty where the data set gives none."""

    id: str = ""
    mended: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Malformed:
    """A row that cannot be, and why."""

    reason: str


Kind = TypeVar("Kind", bound=Example)


class RowReport:
    """Counts the rows of one split; `kept` plus all dropped is `total`, exactly."""

    def __init__(self) -> None:
        self.kept = 0
        self.mended: Counter[tuple[str, str]] = Counter()
        self._dropped: dict[tuple[str, str], list[str]] = {}
        self._ids: set[str] = set()

    def kept_of(self, file: str, rows: Iterable[tuple[str, Kind | Malformed]]) -> Iterator[Kind]:
        """Yield the good ones of (place in the file, row), of rows with one id the first."""
        for place, row in rows:
            if isinstance(row, Malformed):
                self._drop(file, place, row.reason)
            elif row.id and row.id in self._ids:
                self._drop(file, place, "duplicate id")
            else:
                self._ids.add(row.id)
                self.kept += 1
                self.mended.update((file, reason) for reason in row.mended)
                yield row

    @property
    def dropped(self) -> dict[str, int]:
        """How many rows were dropped, by "file: reason"."""
        return {f"{file}: {why}": len(at) for (file, why), at in sorted(self._dropped.items())}

    @property
    def total(self) -> int:
        return self.kept + sum(self.dropped.values())

    def about(self) -> dict[str, Any]:
        """Return the counts and the first places as plain values."""
        return {
            "read": self.total,
            "kept": self.kept,
            "dropped": self.dropped,
            "places": {
                f"{file}: {why}": places[:PLACES]
                for (file, why), places in sorted(self._dropped.items())
            },
            "mended": {f"{file}: {why}": n for (file, why), n in sorted(self.mended.items())},
        }

    def warning(self) -> str | None:
        """Return one sentence if less than 99 % of the rows are kept."""
        if not self.total or self.kept >= GOOD * self.total:
            return None
        share = 100 * self.kept / self.total
        reasons = ", ".join(f"{count} {reason}" for reason, count in self.dropped.items())
        return f"only {self.kept} of {self.total} rows are kept ({share:.1f} %): {reasons}."

    def _drop(self, file: str, place: str, reason: str) -> None:
        self._dropped.setdefault((file, reason), []).append(place)
