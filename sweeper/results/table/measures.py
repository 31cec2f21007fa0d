"""What an experiment is measured by: its metric, or those of the tasks it fine-tunes on."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sweeper.results.statistics.estimates import mean
from sweeper.results.table.columns import factor, label, number
from sweeper.results.table.points import Point, points, rows_of
from sweeper.results.table.table import Table

TASKS = {"squad": "SQuAD", "mnli": "MNLI"}
# What knows nothing of word order, or nothing at all: columns <split>/<baseline>_<metric>.
BASELINES = {"majority": "majority class", "bag_of_words": "bag of words"}


@dataclass(frozen=True)
class Measure:
    """A metric as it is shown: fractions in percent. `task` is empty where none is fine-tuned."""

    task: str
    metric: str

    @property
    def words(self) -> str:
        """The metric in words, after its task."""
        return f"{TASKS.get(self.task, self.task)} {label(self.metric)}".strip()

    def points(self, table: Table) -> list[Point]:
        """The points of the table with their values as they are shown."""
        times = factor(self.metric)
        return [
            replace(point, values={seed: times * value for seed, value in point.values.items()})
            for point in points(table, self.metric)
        ]

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


def measures(table: Table) -> list[Measure]:
    """The measures of an experiment, in its order."""
    finetune = table.experiment.get("finetune") or {}
    found = [Measure(task, metric) for task, metrics in finetune.items() for metric in metrics]
    return found or [Measure("", table.metric)]
