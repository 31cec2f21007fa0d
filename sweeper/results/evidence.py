"""The evidence on claims by one metric: a table of values by point and seed.

Values in the table are independent measurements, for two reasons. A measurement is one training
from scratch with the runs that start from it, so several fine-tunings of one pre-training are
averaged. And if several points have the same runs, they are one row of the table: a distinct point.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from sweeper.results.design import NOTHING, Design, Weights
from sweeper.results.points import Point, judged_points
from sweeper.results.statistics.blocks import first_seeds, table_of
from sweeper.results.statistics.sequential import FIRST, Floats
from sweeper.results.table import (
    THEN,
    Row,
    Table,
    direction,
    number,
    schema_of,
)
from sweeper.results.verdict import JudgedMargin, Unit
from sweeper.store.asked import size_in_words

COSTS = {"FLOPs": "training_flops", "seconds": "seconds"}
"""Maps the name of a cost in messages to its column in the table."""

# Runs wait while other programs occupy the processor. Compare the training times of points only if
# their runs waited about equally. `Measured.share` is the share of time in which a point's runs did
# not wait. The smallest share must be at least this fraction of the largest.
EVEN = 0.9

# The largest possible log ratio. An interval that contains [-FACTOR, FACTOR] counts as unknown.
FACTOR = math.log(1e6)


@dataclass(frozen=True)
class Measured:
    """A distinct point and its measurements.

    Attributes:
        runs: the run ids by seed, in the order of the plan, including unfinished runs.
        values: the measurements by seed, larger being better. Several fine-tunings of one
            pre-training are one measurement, whose key is the smallest of their seeds.
        lost: the number of seeds that will never have a value, because the run or a run that it
            starts from failed, or because the run is done without the metric.
        zero: the number of seeds whose value is 0 or less, if ratios are judged.
        hours: the mean device hours of one measurement. If none is finished, it is the plan's
            estimate, or nan if there is no estimate.
        costs: the mean of each of COSTS over finished measurements, in the order of COSTS; nan if
            unknown.
        share: the share of training time in which a run did not wait for a processor, averaged
            over seeds; nan if unknown.
        devices: the kinds of device that trained the runs, joined by THEN.
        trainings: how many runs must train for one measurement. For example, a fine-tuning and its
            pre-training count as two.
        alone: whether the point has several seeds that all start from the same run.
    """

    runs: Mapping[int, str]
    values: Mapping[int, float]
    lost: int
    zero: int
    hours: float
    costs: list[float]
    share: float
    devices: str
    trainings: int
    alone: bool

    @property
    def first_run(self) -> str:
        """The id of the run of the first seed."""
        return next(iter(self.runs.values()))

    @property
    def unmeasured(self) -> bool:
        """True if no seed has a value yet, and none is lost."""
        return not (self.values or self.lost or self.zero)


class Evidence:
    """The points of an experiment, with their values of one metric.

    Points with the same runs are one distinct point.

    Attributes:
        points: the planned points that this metric judges, without alternatives
            (`Point.alternatives`).
        every: the same points with their alternatives.
        ratios: whether claims judge ratios. Then the values are logarithms.
        margin: the experiment's margin in this metric, or None.
        own_scale: whether claims judge the metric as its schema says, by ratios or by differences.
            If it is False, the margin has changed this.
        resolution: the value to which smaller values are raised before ratios are taken.
        range: the largest possible difference between two values.
        unit: the unit of differences.
        mixed_code: the sentence on runs of different code. It is empty if there are none, or if the
            plan accepts them.
        measured: the distinct points among `every`.
        values: the measurements of `measured`, of shape (distinct points, seeds); nan if missing.
        analyses: `values` at each interim analysis, the newest last.
    """

    def __init__(self, table: Table, metric: str, better: int | None = None) -> None:
        column = schema_of(metric)
        self.metric = metric
        self.margin = _margin(table, metric)
        self.ratios = self.margin.ratio if self.margin else column.ratios
        self.own_scale = self.ratios == column.ratios
        self.resolution = column.resolution
        self.unit: Unit = "metric"
        self.range = math.inf
        if self.ratios:
            self.unit, self.range = "log ratio", FACTOR
        elif column.most:
            self.unit, self.range = "points", column.most
        self._better = better or direction(metric)

        self.points = judged_points(table, metric)
        self.every = [
            one for point in self.points for one in (point, *point.alternatives)
        ]
        self.rows = {str(row["run"]): row for row in table.rows}
        self.files = table.files
        self.mixed_code = "" if table.accepts_mixed_code else table.mixed_code
        self._shared = bool(table.provenance.get("shared_gpus"))

        distinct = {point.key: point for point in self.every}
        self._places = {key: place for place, key in enumerate(distinct)}
        self.measured = [self._measured(point) for point in distinct.values()]
        self.values = table_of([one.values for one in self.measured])
        rounds = table.provenance.get("rounds") or ()
        self.analyses = self._analyses([one["seeds_judged"] for one in rounds])

    def judged(self, value: float) -> float | None:
        """Convert a value of the metric to the scale that claims judge, larger being better.

        If claims judge ratios, raise the value to the metric's resolution, and return None if it is
        still 0 or less.
        """
        if not self.ratios:
            return self._better * value
        value = max(value, self.resolution)
        return self._better * math.log(value) if value > 0 else None

    def design(self) -> Design:
        """Return the points as a `Design`, the argument of a claim."""
        return Design(self.points, self.metric)

    def place(self, point: Point) -> int:
        """Return the index in `measured` of the distinct point that this point belongs to."""
        return self._places[point.key]

    def weights(self, sums: Sequence[Weights]) -> Floats:
        """Return the weights of several weighted sums, of shape (sums, distinct points)."""
        found = np.zeros((len(sums), len(self.measured)))
        for row, weights in zip(found, sums, strict=True):
            for weight, point in weights:
                row[self.place(point)] += weight
        # The weights of a point that is on both sides of a contrast cancel. Remove the rounding
        # error, so that the contrast does not use this point.
        found[np.abs(found) < NOTHING] = 0.0
        return found

    def costs(self, weights: Floats) -> dict[str, float | None]:
        """Return the cost of a contrast's first side, divided by that of its second side.

        The first side consists of the points with positive weights. Costs of several points are
        combined as logarithms: the ratio is exp(sum of weight * log cost).

        Args:
            weights: the weights of the contrast, of shape (distinct points,).

        Returns:
            The ratios by the names in COSTS, without unknown ones. For example, {"FLOPs": 0.5,
            "seconds": None}. The ratio of seconds is None if times cannot be compared, because the
            runs used several kinds of device, shared a GPU, or waited unequally long for a
            processor.
        """
        used = np.flatnonzero(weights)
        points = [self.measured[place] for place in used]
        logs = weights[used] @ np.log([point.costs for point in points])
        devices = {point.devices for point in points}
        shares = [point.share for point in points if not math.isnan(point.share)]
        uneven = bool(shares) and min(shares) < EVEN * max(shares)
        apart = self._shared or uneven or len(devices) > 1 or THEN in "".join(devices)
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

    def _measured(self, point: Point) -> Measured:
        lineages = [self._lineage(run) for run in point.runs.values()]
        by_training: dict[str, dict[int, float]] = defaultdict(dict)
        lost = zero = 0
        for seed, lineage in zip(point.runs, lineages, strict=True):
            value = point.values.get(seed)
            judged = None if value is None else self.judged(value)
            states = [row.get("state") for row in lineage]
            if judged is not None:
                by_training[lineage[-1]["run"]][seed] = judged
            elif value is not None:
                zero += 1
            # This seed will never have a value: its run is done without the metric, or has failed,
            # or starts from a failed run.
            elif states[0] == "done" or "failed" in states:
                lost += 1

        took = [_sum(lineage, "seconds", "devices") for lineage in lineages]
        if not any(took):
            took = [_sum(lineage, "estimate", "devices") for lineage in lineages]
        costs = [
            [_sum(lineage, column) for lineage in lineages] for column in COSTS.values()
        ]
        devices = {str(row.get("device") or "") for rows in lineages for row in rows}
        trainings = {lineage[-1]["run"] for lineage in lineages}
        return Measured(
            runs=point.runs,
            values={min(own): fmean(own.values()) for own in by_training.values()},
            lost=lost,
            zero=zero,
            hours=_mean(took) / 3600,
            costs=[_mean(own) for own in costs],
            share=_mean(map(_share, lineages)),
            devices=THEN.join(sorted(devices - {""})),
            trainings=max(map(len, lineages)),
            alone=len(lineages) > len(trainings) == 1,
        )

    def _lineage(self, run: str) -> list[Row]:
        """Return the row of a run, then the row of its parent, of the parent's parent, ..."""
        row = self.rows.get(run, {"run": run})
        parent = row.get("parent")
        return [row, *self._lineage(str(parent))] if parent else [row]

    def _analyses(self, rounds: Sequence[Mapping[str, int]]) -> list[Floats]:
        """Return the values at each interim analysis, the newest last.

        A first round with 5 seeds counts as three analyses, of 3 (FIRST), 4 and 5 seeds. A sweep
        that has no rounds is analysed in the same way, so adding rounds later changes no analysis.

        Args:
            rounds: for each earlier round of `hydra.sweeper.decide`, the number of seeds of each
                point that were judged. The key of a point is the run id of its first seed.
        """
        by_round = [
            [max(had.get(run, 0) for run in one.runs.values()) for one in self.measured]
            for had in rounds
        ]
        first = by_round[0] if by_round else [len(one.values) for one in self.measured]
        early = range(FIRST, max(first, default=0))
        counts = [*(np.minimum(first, seeds) for seeds in early), *by_round]
        return [*(first_seeds(self.values, count) for count in counts), self.values]


def _sum(lineage: Sequence[Row], *columns: str) -> float | None:
    """Multiply these columns in each row of a run and its parents, and sum the products.

    Return None if the product of the run itself is unknown or 0. Unknown products of parents count
    as 0.
    """
    products = [
        math.prod(number(row.get(column)) or 0.0 for column in columns)
        for row in lineage
    ]
    return math.fsum(products) if products[0] else None


def _margin(table: Table, metric: str) -> JudgedMargin | None:
    """Return the margin of an experiment in a metric, or None if it has none."""
    margin = (table.experiment.get("margin") or {}).get(metric)
    if not margin:
        return None
    words = size_in_words(margin["size"])
    amount, ratio = float(words.rstrip("% ")), words.endswith("%")
    size = math.log1p(amount / 100) if ratio else amount
    return JudgedMargin(size, words, str(margin["reason"]), ratio)


def _mean(values: Iterable[float | None]) -> float:
    known = [value for value in values if value is not None]
    return fmean(known) if known else math.nan


def _share(lineage: Sequence[Row]) -> float | None:
    """Return the share of training time in which a run and its parents did not wait.

    They wait while other programs occupy the processor. Return None if waiting times are unknown.
    """
    waits, seconds = (
        [number(row.get(column)) for row in lineage]
        for column in ("waited_seconds", "seconds")
    )
    if waits[0] is None or not seconds[0]:
        return None
    return 1 - math.fsum(filter(None, waits)) / math.fsum(filter(None, seconds))
