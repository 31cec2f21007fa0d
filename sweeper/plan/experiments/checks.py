"""What an experiment says of its results, held against its points before anything is trained."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from sweeper.plan.conditions import lookup
from sweeper.plan.experiment import Experiment
from sweeper.plan.plan import UnseededPoint
from sweeper.store import registry
from sweeper.store.errors import wrong

Measured = Mapping[str, Collection[str]]
"""By task, the metrics it measures; none of a task that does not say."""


def check_results(
    experiment: Experiment, points: Sequence[UnseededPoint], measured: Measured
) -> None:
    """UserError for a figure, a claim, a metric, a margin or an `x` that its results cannot have.

    Whether its points can decide a claim is another question (results/judge.py).
    """
    name = experiment.yaml or experiment.name
    registry.check(registry.FIGURES, experiment.figure, f"experiment.figure of {name}")
    for claim in experiment.claims:
        registry.check(registry.CLAIMS, claim, f"experiment.claims of {name}")
    shown = dict.fromkeys(metric for _, metric in _asked(experiment, points))
    for task, metric in _asked(experiment, points):
        known = measured.get(task)
        if known and metric not in known:
            expected = f"what task {task} measures ({', '.join(known)})"
            if experiment.yaml:
                raise wrong(f"experiment.metric of {name}", metric, expected, "name one of them")
            tasks = ",".join(measured)
            remedy = "sweep tasks one by one, or give metric=... that all of them measure"
            raise wrong(f"metric of task={tasks}", metric, expected, remedy)
    for metric in experiment.margin:
        if metric not in shown:
            expected = f"a metric that is shown ({', '.join(shown)})"
            raise wrong(f"experiment.margin of {name}", metric, expected, "name one of them")
    if not any(_has(point, experiment.x) for point in points):
        expected = f"a key of the config, or one of {', '.join(points[0].size)}"
        raise wrong(f"experiment.x of {name}", experiment.x, expected, "correct it")


def _asked(experiment: Experiment, points: Sequence[UnseededPoint]) -> Iterator[tuple[str, str]]:
    """The metrics that are looked for, each with the task of a run that is to have it."""
    seen = set()
    for point in points:
        task = str(point.config["task"]["name"])
        tuned = experiment.finetune.get(task, [])
        own = tuned if experiment.finetune else [point.arm.metric or experiment.metric]
        for metric in own:
            if (task, metric) not in seen:
                seen.add((task, metric))
                yield task, metric


def _has(point: UnseededPoint, key: str) -> bool:
    if key in ("arm", "task") or key in point.size or key in point.values:
        return True
    try:
        found: Any = lookup(key, point.config)
    except KeyError:
        return False
    return not isinstance(found, Mapping)
