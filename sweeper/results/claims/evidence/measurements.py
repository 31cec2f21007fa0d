"""What was measured of an experiment's points, seed by seed, on the scale that is judged.

A measurement is one training from scratch. Where runs start from others, that is the first of them:
several fine-tunings of one pre-training are averaged, for what they share was drawn once. Points
that are the same runs are one point, or their difference would be taken for an independent one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sweeper.results.claims.evidence.design import Design
from sweeper.results.statistics.boundary import Floats
from sweeper.results.statistics.estimates import mean
from sweeper.results.table.columns import LOGARITHMIC, RESOLUTION, direction, number
from sweeper.results.table.points import Point, metric_of, points
from sweeper.results.table.table import Table
from sweeper.store.errors import wrong


@dataclass(frozen=True)
class Margin:
    """The largest difference that does not matter, on the scale that is judged, and why."""

    size: float
    words: str
    reason: str


class Measurements:
    """The distinct points of an experiment by one measure.

    Attributes:
        points: every planned point.
        ratios: whether values are logarithms.
        groups: by the place of a distinct point, its measurements in the order of seeds, larger
            being better.
        lost: how many seeds of it were trained and have no value that can be judged.
        seconds: what one takes, mean of those that are done; where none is, what was estimated
            when it was planned, or nan.
        flops: the same in training FLOPs, which another machine or another day does not change.
        trainings: the runs that one takes, those that it starts from included.
        alone: whether it has several seeds that all start from one training.
    """

    def __init__(self, table: Table, metric: str) -> None:
        margin = (table.experiment.get("margin") or {}).get(metric)
        kind = metric.rpartition("/")[2]
        relative = isinstance(margin, Mapping) and str(margin["size"]).endswith("%")
        self.ratios = relative or (margin is None and kind in LOGARITHMIC)
        self.margin = _margin(margin, self.ratios) if margin else None
        self.metric, self._better = metric, direction(metric)
        tuned = table.experiment.get("finetune")
        self.points = [
            point
            for point in points(table, metric)
            if tuned or metric_of(table, point.arm) == metric
        ]
        self._rows = {str(row["run"]): row for row in table.rows}
        self._places: dict[tuple[tuple[int, str], ...], int] = {}
        self.groups: list[list[float]] = []
        self.lost: list[int] = []
        self.seconds: list[float] = []
        self.flops: list[float] = []
        self.trainings: list[int] = []
        self.alone: list[bool] = []
        for point in self.points:
            if self._key(point) not in self._places:
                self._places[self._key(point)] = len(self.groups)
                self._add(point)

    def design(self) -> Design:
        return Design(self.points, self.metric, ratios=self.ratios)

    def place(self, point: Point) -> int:
        return self._places[self._key(point)]

    def costs(self) -> Floats:
        """What a measurement of each distinct point costs against the others, above 0.

        By FLOPs: measured times would have the same sweep choose other seeds when it is repeated.
        """
        return _filled(self.flops)

    def hours(self) -> Floats | None:
        """Hours that a measurement of each distinct point takes; None where none is known."""
        return _filled(self.seconds) / 3600 if any(map(math.isfinite, self.seconds)) else None

    def scaled(self, size: str) -> float:
        """A difference as a person writes one, on the scale that is judged.

        Raises:
            UserError: it is none, or per cent where differences are judged, or the other way.
        """
        text = size.strip()
        try:
            found = _scaled(text, self.ratios)
        except ValueError:
            found = 0.0
        if not 0 < found < math.inf or text.endswith("%") != self.ratios:
            unit = "per cent" if self.ratios else f"the unit of {self.metric}"
            remedy = "give it as in 1%" if self.ratios else "give a number"
            raise wrong("effect", size, f"a number above 0 in {unit}", remedy)
        return found

    def _key(self, point: Point) -> tuple[tuple[int, str], ...]:
        return tuple(sorted(point.runs.items()))

    def _add(self, point: Point) -> None:
        by_training: dict[str, list[float]] = {}
        lost = 0
        for seed in sorted(point.runs):
            run = point.runs[seed]
            value = self._goodness(point.values.get(seed))
            if value is not None:
                by_training.setdefault(self._line(run)[-1], []).append(value)
            elif str(self._rows[run]["state"]) in ("done", "failed"):
                lost += 1
        first = {self._line(run)[-1] for run in point.runs.values()}
        self.groups.append([mean(values) for values in by_training.values()])
        self.lost.append(lost)
        runs = list(point.runs.values())
        took = [self._taken(run, "seconds") for run in runs]
        planned = [self._taken(run, "estimate") for run in runs]
        self.seconds.append(_mean(took if any(took) else planned))
        flops = (self._taken(run, "flops_per_token", "tokens_seen") for run in runs)
        self.flops.append(_mean(flops))
        self.trainings.append(max(len(self._line(run)) for run in runs))
        self.alone.append(len(point.runs) > len(first) == 1)

    def _line(self, run: str) -> list[str]:
        """A run, the one it starts from, and so on to the training from scratch."""
        parent = self._rows[run].get("parent") if run in self._rows else None
        return [run, *self._line(str(parent))] if parent else [run]

    def _taken(self, run: str, *columns: str) -> float | None:
        """The product of columns, of a run and of those that it starts from; None if not known."""
        rows = [self._rows.get(one, {}) for one in self._line(run)]
        cells = [[number(row.get(column)) for column in columns] for row in rows]
        known = [math.prod(c for c in own if c is not None) for own in cells if None not in own]
        return math.fsum(known) if known and None not in cells[0] else None

    def _goodness(self, value: float | None) -> float | None:
        if value is None or (self.ratios and value <= 0):
            return None
        least = RESOLUTION.get(self.metric.rpartition("/")[2], 0.0)
        told = math.log(max(value, least)) if self.ratios else value
        return self._better * told


def _margin(given: Mapping[str, Any], ratios: bool) -> Margin:
    text = str(given["size"])
    words = f"{float(text.rstrip('% ')):g}{' %' if ratios else ''}"
    return Margin(_scaled(text, ratios), words, str(given["reason"]))


def _scaled(text: str, ratios: bool) -> float:
    size = float(text.rstrip("% "))
    return math.log1p(size / 100) if ratios else size


def _mean(values: Iterable[float | None]) -> float:
    known = [value for value in values if value is not None]
    return mean(known) if known else math.nan


def _filled(values: Sequence[float]) -> Floats:
    """The values; where there is none above 0, the mean of the others, or 1."""
    given = np.array(values)
    known = np.isfinite(given) & (given > 0)
    return np.where(known, given, given[known].mean() if known.any() else 1.0)
