"""What was measured of an experiment's points, seed by seed, on the scale that is judged.

A measurement is one training from scratch. Where runs start from others, that is the first of them:
several fine-tunings of one pre-training are averaged, for what they share was drawn once. Points
that are the same runs are one point, or their difference would be taken for an independent one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sweeper.results.claims.evidence.design import Design
from sweeper.results.statistics.boundary import Floats
from sweeper.results.statistics.estimates import mean
from sweeper.results.table.columns import LOGARITHMIC, direction, factor
from sweeper.results.table.points import Point, metric_of, points
from sweeper.results.table.table import Table


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
        seconds: what a run of it takes, mean of those that are done; nan where none is.
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
        self._parents = {str(row["run"]): row.get("parent") for row in table.rows}
        states = {str(row["run"]): (row["state"], row.get("seconds")) for row in table.rows}
        self._places: dict[tuple[tuple[int, str], ...], int] = {}
        self.groups: list[list[float]] = []
        self.lost: list[int] = []
        self.seconds: list[float] = []
        self.alone: list[bool] = []
        for point in self.points:
            if self._key(point) not in self._places:
                self._places[self._key(point)] = len(self.groups)
                self._add(point, states)

    def design(self) -> Design:
        """The points, for a claim to choose among."""
        return Design(self.points, self.metric, ratios=self.ratios)

    def place(self, point: Point) -> int:
        """Which distinct point it is."""
        return self._places[self._key(point)]

    def costs(self) -> Floats:
        """What a run of each distinct point costs against the others, above 0."""
        seconds = np.array(self.seconds)
        known = np.isfinite(seconds) & (seconds > 0)
        return np.where(known, seconds, seconds[known].mean() if known.any() else 1.0)

    def _key(self, point: Point) -> tuple[tuple[int, str], ...]:
        return tuple(sorted(point.runs.items()))

    def _add(self, point: Point, states: Mapping[str, tuple[Any, Any]]) -> None:
        by_training: dict[str, list[float]] = {}
        lost = 0
        for seed in sorted(point.runs):
            run = point.runs[seed]
            value = self._scaled(point.values.get(seed))
            if value is not None:
                by_training.setdefault(self._first(run), []).append(value)
            elif str(states[run][0]) in ("done", "failed"):
                lost += 1
        first = {self._first(run) for run in point.runs.values()}
        self.groups.append([mean(values) for values in by_training.values()])
        self.lost.append(lost)
        self.seconds.append(_mean(states[run][1] for run in point.runs.values()))
        self.alone.append(len(point.runs) > len(first) == 1)

    def _first(self, run: str) -> str:
        """The training from scratch that a run goes back to."""
        parent = self._parents.get(run)
        return self._first(str(parent)) if parent else run

    def _scaled(self, value: float | None) -> float | None:
        if value is None or (self.ratios and value <= 0):
            return None
        return self._better * (math.log(value) if self.ratios else factor(self.metric) * value)


def _margin(given: Mapping[str, Any], ratios: bool) -> Margin:
    size = float(str(given["size"]).rstrip("% "))
    words = f"{size:g} %" if ratios else f"{size:g}"
    return Margin(math.log1p(size / 100) if ratios else size, words, str(given["reason"]))


def _mean(seconds: Iterable[Any]) -> float:
    known = [float(value) for value in seconds if isinstance(value, int | float)]
    return mean(known) if known else math.nan
