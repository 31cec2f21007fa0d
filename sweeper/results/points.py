"""The points of a table, the metrics that judge them, and the scores of simple baselines.

A point is one setting with all its seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import itemgetter
from statistics import fmean
from typing import Any

from sweeper.results.statistics.blocks import (
    Variance,
    moderated,
    student_interval,
    table_of,
)
from sweeper.results.table import (
    LOGARITHMIC_FROM,
    Row,
    Table,
    factor,
    label,
    number,
    schema_of,
)

RATE = "optimizer.learning_rate"
TRIGRAM = "test/trigram_perplexity"
_LARGEST_LOG = 700.0  # above 709, math.exp overflows
Spreads = Mapping[tuple[str, ...], Variance]
"""Maps `Point.key` to the variance between the point's seeds. Unknown variances are left out."""


@dataclass
class Point:
    """One setting of an arm, with the results of all its seeds.

    Attributes:
        arm, name: the arm, and the setting in words, such as "heads=8".
        settings: the keys that the plan varies in this arm, with their values.
        cells: the cells of the point's rows. If the rows differ in a column, it is the first known
            value.
        values: the metric of each finished seed, in the unit of its label (for example %).
        runs: the run id of every planned seed.
        seconds: the training time of each finished run.
        alternatives: points that differ only in the tuned keys, such as the learning rate, if
            tuning could not tell whether they are worse than this point.
        bounds: the smallest and the largest possible value of the metric.
        logs: whether `values` holds logarithms.
    """

    arm: str
    name: str
    settings: Mapping[str, Any]
    cells: dict[str, Any] = field(default_factory=dict)
    values: dict[int, float] = field(default_factory=dict)
    runs: dict[int, str] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    alternatives: list[Point] = field(default_factory=list)
    bounds: tuple[float, float] = (-math.inf, math.inf)
    logs: bool = False

    def at(self, column: str) -> float | None:
        """Return the number in a column, or None. For `seconds`, return the mean over seeds.

        For a key that the plan varies, return the point's value, even if the run of a fine-tuning
        has another one.
        """
        if column == "seconds" and self.seconds:
            return fmean(self.seconds)
        return number(self.settings.get(column, self.cells.get(column)))

    @property
    def mean(self) -> float:
        """The mean over seeds. The point must have at least one value."""
        return fmean(self.values.values())

    @property
    def key(self) -> tuple[str, ...]:
        """The ids of the point's runs, sorted. Points with the same runs count as one."""
        return tuple(sorted(self.runs.values()))

    def interval(self, spreads: Spreads) -> tuple[float, float] | None:
        """Return the 95 % interval of the mean, clipped to `bounds`.

        Return None if `spreads` lacks the variance of this point.
        """
        variance = spreads.get(self.key)
        if variance is None:
            return None
        low, high = student_interval(self.mean, len(self.values), variance)
        smallest, largest = self.bounds
        return max(low, smallest), min(high, largest)


def rows_of(table: Table, metric: str) -> list[Row]:
    """Return the rows of the runs that measure `metric`.

    These are all rows, unless the experiment fine-tunes models. Its key `finetune` lists the
    metrics that each fine-tuning task measures. Other metrics are measured by the pre-training.
    """
    finetune = table.experiment.get("finetune") or {}
    owners = {task for task, metrics in finetune.items() if metric in metrics}
    if owners:
        return [row for row in table.rows if row.get("task") in owners]
    return [row for row in table.rows if row.get("task") not in finetune]


def metric_of(table: Table, arm: str) -> str:
    """Return the metric that judges an arm: the arm's `metric`, or else the experiment's."""
    return str(table.experiment["arms"].get(arm, {}).get("metric") or table.metric)


def points(table: Table, metric: str) -> list[Point]:
    """Return the points of a table with their values of a metric, in the order of the plan.

    Alternatives are not in the list itself, but in `Point.alternatives` of their points.
    """
    found: dict[str, Point] = {}
    for row in rows_of(table, metric):
        # If the plan varies nothing in an arm, its point has no name.
        arm, name = str(row["arm"]), str(row["point"] or "")
        settings = table.settings.get(name, {})
        new = Point(arm, name, settings, bounds=_bounds(metric, row))
        point = found.setdefault(f"{arm} {name}".strip(), new)
        for column, cell in row.items():
            if point.cells.get(column) is None:
                point.cells[column] = cell
        seed = int(row["seed"])
        point.runs[seed] = str(row["run"])
        value = number(row.get(metric))
        if value is not None:
            point.values[seed] = factor(metric) * value
        if seconds := number(row.get("seconds")):
            point.seconds.append(seconds)
    chosen = []
    for point in found.values():
        chosen_point = found.get(str(point.cells.get("alternative_to") or ""))
        # A newer plan may have chosen this alternative, and lack the point that was chosen before.
        # Then the alternative is a point of its own.
        if chosen_point is None:
            chosen.append(point)
        else:
            chosen_point.alternatives.append(point)
    return chosen


def judged_points(table: Table, metric: str) -> list[Point]:
    """Return the points of the arms that a metric judges, with their values of this metric."""
    finetuned = table.experiment.get("finetune")
    return [
        point
        for point in points(table, metric)
        if finetuned or metric_of(table, point.arm) == metric
    ]


def _bounds(metric: str, row: Row) -> tuple[float, float]:
    """Return the smallest and the largest possible value of a metric, in the unit of its label."""
    if most := schema_of(metric).most:
        return 0.0, most
    # The rank of the matrix of a head's logits q·k is at most the head size.
    size = number(row.get("model.head_size"))
    is_multi_head = row.get("model.attention.name") == "multi_head"
    if metric.endswith("/attention_rank") and size and is_multi_head:
        return 0.0, size
    return -math.inf, math.inf


def seed_spread(given: Collection[Point]) -> Spreads:
    """Return the variance between the seeds of each point, shrunk towards the pooled variance.

    Leave out a point if one of its seeds diverged, if all its values are equal, or if the variance
    has no degree of freedom (statistics/blocks.py).
    """
    groups = {point.key: point.values for point in given if point.values}
    found = moderated(table_of([*groups.values()]))
    return {
        key: variance
        for key, variance in zip(groups, found, strict=True)
        if variance.known and variance.value > 0
    }


def transformed(
    points: Sequence[Point], metric: str
) -> tuple[list[Point], Callable[[float], float]]:
    """Take the logarithms of the points' values if the values span orders of magnitude.

    This requires positive values that span a factor of LOGARITHMIC_FROM, and a metric without an
    upper bound. Otherwise, return the points unchanged.

    Returns:
        The points, and the function that converts their values back.
    """
    values = [value for point in points for value in point.values.values()]
    linear = schema_of(metric).most or not values or min(values) <= 0
    if linear or max(values) / min(values) < LOGARITHMIC_FROM:
        return list(points), float
    found = []
    for point in points:
        logs = {seed: math.log(value) for seed, value in point.values.items()}
        bounds = (-math.inf, math.log(point.bounds[1]))
        found.append(replace(point, values=logs, bounds=bounds, logs=True))
    return found, lambda log: math.exp(min(log, _LARGEST_LOG))


TASKS = {"squad": "SQuAD", "mnli": "MNLI"}
# Simple predictors and their labels. Their scores are in the columns <split>/<baseline>_<metric>.
# The first baseline of each metric ignores the input, so `not_learned` compares runs with it.
BASELINES = {
    "majority": "majority class",
    "bag_of_words": "bag of words",
    "unigram": "unigram",
    "bigram": "bigram",
    "trigram": "trigram",
}


@dataclass(frozen=True)
class Measure:
    """A metric that judges an experiment.

    Attributes:
        task: the fine-tuning task that measures the metric; "" if the metric is not of such a task.
        metric: the column of the metric.
    """

    task: str
    metric: str

    @property
    def words(self) -> str:
        """The task and the metric in words."""
        return f"{TASKS.get(self.task, self.task)} {label(self.metric)}".strip()

    def points(self, table: Table) -> list[Point]:
        """Return the points of a table with their values of this metric."""
        return points(table, self.metric)


def numbers(rows: Iterable[Row], column: str) -> list[float]:
    """Return the numbers in a column."""
    found = (number(row.get(column)) for row in rows)
    return [value for value in found if value is not None]


def baselines(metric: str, rows: Collection[Row]) -> dict[str, float]:
    """Return the mean score of each baseline that the rows have, by its label, lowest first."""
    split, _, name = metric.rpartition("/")
    found = {}
    for baseline, words in BASELINES.items():
        if values := numbers(rows, f"{split}/{baseline}_{name}"):
            found[words] = factor(metric) * fmean(values)
    return dict(sorted(found.items(), key=itemgetter(1)))


def guides(table: Table) -> dict[str, float]:
    """Return the perplexities of n-gram models by label.

    Return {} if the metric is not a perplexity, or if runs differ in their test data.
    """
    found = baselines(table.metric, table.rows)
    known = set(numbers(table.rows, TRIGRAM))
    return found if "trigram" in found and len(known) == 1 else {}


def trigram_curve(table: Table, x: str) -> list[tuple[float, float]]:
    """Return the perplexity of the trigram model over column `x`, as pairs (x, perplexity).

    The trigram model depends on the data of a run. Return [] if its perplexity is the same for all
    runs, if it differs between runs of equal `x`, or if the table's metric is not the perplexity
    per subword.
    """
    if table.metric != "test/perplexity":
        return []
    known = set()
    for row in table.rows:
        at, perplexity = number(row.get(x)), number(row.get(TRIGRAM))
        if at is not None and perplexity is not None:
            known.add((at, perplexity))
    places = {at for at, _ in known}
    perplexities = {perplexity for _, perplexity in known}
    return sorted(known) if len(known) == len(places) and len(perplexities) > 1 else []


def measures(table: Table, arm: str = "") -> list[Measure]:
    """Return the metrics that judge an arm, or the experiment if `arm` is "".

    They are the metrics of the fine-tuning tasks, or, without such tasks, the key `metric`.
    """
    finetune = table.experiment.get("finetune") or {"": [metric_of(table, arm)]}
    return [
        Measure(task, metric)
        for task, metrics in finetune.items()
        for metric in metrics
    ]


def measures_of_arms(table: Table) -> list[Measure]:
    """Return the metrics that judge the experiment or at least one of its arms."""
    every = [measures(table, arm) for arm in ("", *table.experiment["arms"])]
    return list(dict.fromkeys(chain(*every)))
