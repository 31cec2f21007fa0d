"""What an experiment is measured by: its metric, or those of the tasks it fine-tunes on."""

from __future__ import annotations

from dataclasses import dataclass

from sweeper.results.statistics.estimates import mean
from sweeper.results.table.columns import factor, label, number
from sweeper.results.table.points import Point, points, rows_of
from sweeper.results.table.table import Table

TASKS = {"squad": "SQuAD", "mnli": "MNLI"}
# What knows nothing of word order, or nothing at all: columns <split>/<baseline>_<metric>.
BASELINES = {"majority": "majority class", "bag_of_words": "bag of words"}

_LITTLE = 0.1  # of what the best run is above a baseline: who is no further above has not learned
_NAMED = 4  # settings


@dataclass(frozen=True)
class Measure:
    """A metric as it is shown. `task` is empty where none is fine-tuned."""

    task: str
    metric: str

    @property
    def words(self) -> str:
        """The metric in words, after its task."""
        return f"{TASKS.get(self.task, self.task)} {label(self.metric)}".strip()

    def points(self, table: Table) -> list[Point]:
        return points(table, self.metric)

    def baselines(self, table: Table) -> dict[str, float]:
        """By its words, what each baseline reaches that the rows carry, lowest first."""
        split, _, name = self.metric.rpartition("/")
        found = {}
        for baseline, words in BASELINES.items():
            cells = [row.get(f"{split}/{baseline}_{name}") for row in rows_of(table, self.metric)]
            values = [value for value in map(number, cells) if value is not None]
            if values:
                found[words] = factor(self.metric) * mean(values)
        return dict(sorted(found.items(), key=lambda item: item[1]))


def not_learned(table: Table) -> list[str]:
    """The settings of which some seeds do no better than what knows nothing, by measure."""
    told = []
    for measure in measures(table):
        lowest = next(iter(measure.baselines(table).items()), None)
        every = [point for point in measure.points(table) if point.values]
        if lowest is None or not every:
            continue
        words, nothing = lowest
        best = max(value for point in every for value in point.values.values())
        learned = nothing + max(_LITTLE * (best - nothing), _LITTLE / 2 * abs(nothing))
        counts = [sum(v <= learned for v in point.values.values()) for point in every]
        named = [
            f"{table.label(point.arm)} {point.name} ({count} of {len(point.values)} seeds)"
            for point, count in zip(every, counts, strict=True)
            if count
        ]
        more = [f"and {len(named) - _NAMED} more settings"] if len(named) > _NAMED else []
        if named:
            listed = "; ".join([*named[:_NAMED], *more])
            told.append(f"{measure.words} not learned, about that of the {words}: {listed}.")
    return told


def measures(table: Table) -> list[Measure]:
    finetune = table.experiment.get("finetune") or {}
    found = [Measure(task, metric) for task, metrics in finetune.items() for metric in metrics]
    return found or [Measure("", table.metric)]
