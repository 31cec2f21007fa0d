"""The evidence on claims by one measure: a table of values by point and seed.

A measurement is one training from scratch, with the runs that start from it. Several fine-tunings
of one pre-training are averaged, because they share one random draw. Points with the same runs
count as one distinct point; otherwise, their values would count as independent.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from sweeper.results.design import NOTHING, Design, Weights
from sweeper.results.points import Point, metric_of, points
from sweeper.results.statistics.blocks import first_seeds, table_of
from sweeper.results.statistics.sequential import FIRST, Floats
from sweeper.results.table import (
    LOGARITHMIC,
    PER_CENT,
    RESOLUTION,
    THEN,
    Table,
    direction,
    number,
)
from sweeper.results.verdict import JudgedMargin, Unit

COSTS = {"FLOPs": "training_flops", "seconds": "seconds"}
"""For each cost of a run, in words, its column."""

# Treat an interval of log ratios as unknown if it reaches this far on both sides.
FACTOR = math.log(1e6)

Key = tuple[tuple[int, str], ...]
"""The (seed, run id) pairs of a point. They identify a distinct point."""


@dataclass(frozen=True)
class Measured:
    """A distinct point.

    Attributes:
        runs: the (seed, run id) pairs.
        first_run: the run of the first seed, in the order of the plan.
        values: its measurements by seed, larger being better. Several fine-tunings of one
            pre-training are one measurement, under the first of their seeds.
        lost: the number of seeds without a value whose run is done or failed.
        zero: the number of seeds whose value is 0 or less, if ratios are judged.
        hours: the mean device hours of one measurement; without a finished one, the plan's
            estimate, or nan.
        costs: the mean of each of COSTS over finished measurements; nan if unknown.
        devices: the kinds of device that trained it, joined by THEN.
        trainings: the number of runs of one measurement, including the runs that they start from.
        alone: whether it has several seeds that all start from one training.
    """

    runs: Key
    first_run: str
    values: Mapping[int, float]
    lost: int
    zero: int
    hours: float
    costs: list[float]
    devices: str
    trainings: int
    alone: bool

    @property
    def unmeasured(self) -> bool:
        """True if no seed has a value and none failed."""
        return not (self.values or self.lost or self.zero)


class Evidence:
    """The points of an experiment, with their values of one metric.

    Points with the same runs are one distinct point.

    Attributes:
        points: every planned point except alternatives.
        every: every planned point, including alternatives.
        ratios: whether values are logarithms.
        margin: the experiment's margin in this metric, or None.
        range: the largest possible difference between two values.
        unit: the unit of differences.
        mixed_code: the sentence on runs of different code; empty if the plan accepts them.
        measured: the distinct points among `every`.
        values: the measurements of `measured`, of shape (distinct points, seeds); nan if missing.
        analyses: `values` at each interim analysis, the newest last.
    """

    def __init__(self, table: Table, metric: str, better: int | None = None) -> None:
        margin = (table.experiment.get("margin") or {}).get(metric)
        kind = metric.rpartition("/")[2]
        self.ratios = kind in LOGARITHMIC
        self.margin: JudgedMargin | None = None
        if margin:
            text = str(margin["size"])
            self.ratios = text.endswith("%")
            amount = float(text.rstrip("% "))
            size = math.log1p(amount / 100) if self.ratios else amount
            words = f"{amount:g}{' %' if self.ratios else ''}"
            self.margin = JudgedMargin(size, words, str(margin["reason"]))
        self.metric = metric
        self.unit: Unit = "metric"
        if self.ratios:
            self.unit = "log ratio"
        elif kind in PER_CENT:
            self.unit = "points"
        self.range = FACTOR if self.ratios else 100.0 if kind in PER_CENT else math.inf
        tuned = table.experiment.get("finetune")
        self.points = [
            point
            for point in points(table, metric)
            if tuned or metric_of(table, point.arm) == metric
        ]
        self.every = [
            one for point in self.points for one in (point, *point.alternatives)
        ]
        self.rows = {str(row["run"]): row for row in table.rows}
        self.files = table.files
        self.mixed_code = "" if table.accepts_mixed_code else table.mixed_code
        self._shared = bool(table.provenance.get("shared_gpus"))
        self._better = better or direction(metric)
        self._least = RESOLUTION.get(kind, 0.0)
        distinct = {_key(point): point for point in self.every}
        self._places = {key: place for place, key in enumerate(distinct)}
        self.measured = [self._measured(key, point) for key, point in distinct.items()]
        self.values = table_of([one.values for one in self.measured])
        rounds = table.provenance.get("rounds") or ()
        self.analyses = self._analyses([one["seeds_judged"] for one in rounds])

    def judged(self, value: float) -> float | None:
        """Return a value on the scale of claims, larger being better.

        If ratios are judged, return None for a value of 0 or less. A value below the metric's
        resolution counts as the resolution.
        """
        if not self.ratios:
            return self._better * value
        value = max(value, self._least)
        return self._better * math.log(value) if value > 0 else None

    def design(self) -> Design:
        """Return the points in the form that claims take."""
        return Design(self.points, self.metric, self.ratios)

    def place(self, point: Point) -> int:
        """Return the index of a point among the distinct points."""
        return self._places[_key(point)]

    def weights(self, sums: Sequence[Weights]) -> Floats:
        """Return these weights as an array of shape (sums, distinct points)."""
        found = np.zeros((len(sums), len(self.measured)))
        for row, weights in zip(found, sums, strict=True):
            for weight, point in weights:
                row[self.place(point)] += weight
        # If a point is on both sides of a contrast, its weights cancel.
        found[np.abs(found) < NOTHING] = 0.0
        return found

    def costs(self, weights: Floats) -> dict[str, float | None]:
        """Return the ratio of each known cost between the two sides of a contrast.

        A ratio is the exponential of the same contrast of log costs. The ratio of seconds is None
        if devices were of several kinds or shared.

        Args:
            weights: the contrast, of shape (distinct points,).
        """
        used = np.flatnonzero(weights)
        points = [self.measured[place] for place in used]
        logs = weights[used] @ np.log([point.costs for point in points])
        devices = {point.devices for point in points}
        apart = self._shared or len(devices) > 1 or THEN in "".join(devices)
        ratios: dict[str, float | None] = {
            cost: ratio
            for cost, ratio in zip(COSTS, np.exp(logs).tolist(), strict=True)
            if not math.isnan(ratio)
        }
        if apart and ratios:
            ratios["seconds"] = None
        return ratios

    def average(self, point: Point) -> float:
        """Return the mean of a point's measurements, larger being better; nan if it has none."""
        return _mean(self.measured[self.place(point)].values.values())

    def _measured(self, key: Key, point: Point) -> Measured:
        lines = {run: self._line(run) for _, run in key}
        by_training: dict[str, dict[int, float]] = {}
        lost = zero = 0
        for seed, run in key:
            value = point.values.get(seed)
            judged = None if value is None else self.judged(value)
            states = [self.rows.get(one, {}).get("state") for one in lines[run]]
            if judged is not None:
                by_training.setdefault(lines[run][-1], {})[seed] = judged
            elif value is not None:
                zero += 1
            # The run or one that it starts from failed, or the run is done without a value.
            elif states[0] == "done" or "failed" in states:
                lost += 1
        of_runs = lines.values()
        took = [self._sum(line, "seconds", "devices") for line in of_runs]
        if not any(took):
            took = [self._sum(line, "estimate", "devices") for line in of_runs]
        rows = [self.rows.get(run, {}) for line in of_runs for run in line]
        devices = {str(row["device"]) for row in rows if row.get("device")}
        return Measured(
            runs=key,
            first_run=next(iter(point.runs.values())),
            values={min(own): fmean(own.values()) for own in by_training.values()},
            lost=lost,
            zero=zero,
            hours=_mean(took) / 3600,
            costs=[
                _mean(self._sum(line, column) for line in of_runs)
                for column in COSTS.values()
            ],
            devices=THEN.join(sorted(devices)),
            trainings=max(map(len, lines.values())),
            alone=len(key) > len({line[-1] for line in lines.values()}) == 1,
        )

    def _line(self, run: str) -> list[str]:
        """Return a run, the run that it starts from, and so on up to the training from scratch."""
        parent = self.rows[run].get("parent") if run in self.rows else None
        return [run, *self._line(str(parent))] if parent else [run]

    def _sum(self, line: Sequence[str], *columns: str) -> float | None:
        """Multiply the cells of these columns in each run of a line, and sum the products.

        Return None if a value of the first run is unknown. Other runs with unknown values are left
        out.
        """
        rows = [self.rows.get(one, {}) for one in line]
        cells = [[number(row.get(column)) for column in columns] for row in rows]
        known = [math.prod(filter(None, own)) for own in cells if all(own)]
        return math.fsum(known) if known and None not in cells[0] else None

    def _analyses(self, rounds: Sequence[Mapping[str, int]]) -> list[Floats]:
        """Return the values at each interim analysis, the newest last.

        Every number of seeds from FIRST up to the first round's counts as analysed. So a sweep that
        continues keeps the decisions of its first round.

        Args:
            rounds: for each earlier round of `hydra.sweeper.decide`, the number of judged seeds, by
                run.
        """
        by_round = [
            [max(had.get(run, 0) for _, run in one.runs) for one in self.measured]
            for had in rounds
        ]
        first = by_round[0] if by_round else [len(one.values) for one in self.measured]
        early = range(FIRST, max(first, default=0))
        counts = [*(np.minimum(first, seeds) for seeds in early), *by_round]
        return [*(first_seeds(self.values, count) for count in counts), self.values]


def _key(point: Point) -> Key:
    return tuple(sorted(point.runs.items()))


def _mean(values: Iterable[float | None]) -> float:
    known = [value for value in values if value is not None]
    return fmean(known) if known else math.nan
