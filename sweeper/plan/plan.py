"""The data classes of a plan.

An arm is one curve of an experiment. A `Configuration` is a point on this curve, without a seed.
For each seed, the plan has a `PlannedPoint` and a run that trains its model. Points with the same
config share a run.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sweeper.plan.experiment import Arm, Experiment
from sweeper.plan.facts import Size
from sweeper.store.records import Record

Rounds = Sequence[Mapping[str, Any]]
"""The earlier rounds of `hydra.sweeper.decide`, as plain data.

Each round has the form {"seeds_judged": {run id of a point's first seed: number of seeds}}."""


@dataclass(frozen=True)
class Matched:
    """The target size of a matched point, and the size that its model achieves.

    Attributes:
        to: a description of the target, such as "standard heads=8" or "16,640".
        count: the measure of size, such as "params_total".
        target: the target size.
        achieved: the size of the point's model.
        error: achieved / target - 1.
    """

    to: str
    count: str
    target: int
    achieved: int
    error: float


@dataclass(frozen=True)
class Chosen:
    """The values that tuning chose for a point, and the ids of the trials that it compared."""

    values: Mapping[str, Any]
    trials: Sequence[str]


@dataclass(frozen=True)
class Configuration:
    """A point of an arm, without a seed.

    Attributes:
        arm: the arm.
        values: the values of the keys in the arm's grid. In a matched arm, also the computed value
            of the key `match.solve`.
        config: the config of the point's runs. Each run replaces the seed by its own seed, unless
            `once` is True.
        size: the size of the model.
        matched: the target size and the achieved size; None if the arm is not matched.
        parent: the configuration from whose weights the runs start, or None. Each run starts from
            the parent's run with the same seed.
        once: whether the point has only one run, with the seed in `config`.
        seeds: the seeds of a tuning trial. All other points have the seeds of the experiment, and
            this attribute is empty.
        chosen: the values that tuning chose; None if the point is not tuned.
        alternative_to: None in most cases. If trials could not tell which of two choices of the
            tuned values is better, the point has two configurations. In the second configuration,
            this attribute holds the `values` of the first.
    """

    arm: Arm
    values: Mapping[str, Any]
    config: Mapping[str, Any]
    size: Size = field(default_factory=dict)
    matched: Matched | None = None
    parent: Configuration | None = None
    once: bool = False
    seeds: Sequence[int] = ()
    chosen: Chosen | None = None
    alternative_to: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class PlannedPoint:
    """A point of a curve with one seed, and the id of the run that trains its model."""

    experiment: str
    arm: str
    task: str
    seed: int
    values: Mapping[str, Any]
    run: str
    matched: Matched | None
    chosen: Chosen | None = None
    alternative_to: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Plan:
    """The runs of a sweep and the points that use them.

    The keys of `runs` are run ids. The keys of all other mappings are names of experiments.
    """

    scale: str
    outputs: Path
    experiments: Mapping[str, Experiment]
    texts: Mapping[str, str]  # one-line descriptions of the training texts
    configurations: Mapping[str, list[Configuration]]
    points: list[PlannedPoint] = field(default_factory=list)
    runs: Mapping[str, Record] = field(default_factory=dict)
    # The values that tuning chose, as plain data.
    tuning: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    notes: Sequence[str] = ()  # sentences to print below the table of points
    accept_mixed_code: bool = False  # whether runs of different code may decide a claim

    @property
    def claims(self) -> list[str]:
        """The claims of all experiments, without duplicates."""
        return [
            *dict.fromkeys(
                claim for one in self.experiments.values() for claim in one.claims
            )
        ]

    @property
    def tuned(self) -> bool:
        """True if at least one experiment of the plan is tuned."""
        return any(one.tune for one in self.experiments.values())

    def as_data(self, rounds: Rounds = ()) -> dict[str, Any]:
        """Return the plan as plain data for its file. `rounds` are the rounds before this plan."""
        return {
            # The command as the user wrote it: sweep.py without its folder, and overrides without
            # the `++` that sweep.py adds.
            "command": [
                Path(sys.argv[0]).name,
                *(
                    re.sub(r"^\+\+experiment\.", "experiment.", one)
                    for one in sys.argv[1:]
                ),
            ],
            "scale": self.scale,
            "experiments": {
                name: {**e.described(), "scale": self.scale, "text": self.texts[name]}
                | ({"tuning": list(self.tuning[name])} if name in self.tuning else {})
                for name, e in self.experiments.items()
            },
            "points": [
                {
                    key: value
                    for key, value in asdict(point).items()
                    if value is not None or key not in ("chosen", "alternative_to")
                }
                for point in self.points
            ],
            "runs": {
                run.id: {"size": run.size, "parent": run.parent}
                for run in self.runs.values()
            },
            **({"rounds": list(rounds)} if rounds else {}),
            **({"accept_mixed_code": True} if self.accept_mixed_code else {}),
        }
