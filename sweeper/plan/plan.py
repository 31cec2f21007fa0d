"""The data of a plan: configurations, points, runs."""

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
"""The earlier rounds of `hydra.sweeper.decide` as plain data: their seeds and verdicts."""


@dataclass(frozen=True)
class Matched:
    """The target of a matched point, and the size it achieved."""

    to: str
    count: str
    target: int
    achieved: int
    error: float


@dataclass(frozen=True)
class Chosen:
    """Values that tuning chose for a point, and the trial runs behind the choice."""

    values: Mapping[str, Any]
    trials: Sequence[str]


@dataclass(frozen=True)
class Configuration:
    """A point without a seed.

    An alternative is another configuration of the same point: trials could not tell its tuned
    values from the chosen ones. Its `alternative_to` holds the values of the point.
    """

    arm: Arm
    values: Mapping[str, Any]  # of the arm's grid, and the solved key
    config: Mapping[str, Any]  # of the runs; the seed in it counts only if `once`
    size: Size = field(default_factory=dict)
    matched: Matched | None = None
    # Runs start from the parent's run of the same seed.
    parent: Configuration | None = None
    once: bool = False  # there is one run, with the seed in `config`
    chosen: Chosen | None = None
    alternative_to: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class PlannedPoint:
    """One setting of a curve with one seed, and the run that measures it."""

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

    The keys of `runs` are ids of runs. The keys of the other mappings are names of experiments.
    """

    scale: str
    outputs: Path
    experiments: Mapping[str, Experiment]
    texts: Mapping[str, str]  # descriptions of the training text
    configurations: Mapping[str, list[Configuration]]
    points: list[PlannedPoint] = field(default_factory=list)
    runs: Mapping[str, Record] = field(default_factory=dict)
    tuning: Mapping[str, Sequence[Mapping[str, Any]]] = field(
        default_factory=dict
    )  # choices
    accept_mixed_code: bool = False  # whether runs of different code may decide a claim

    @property
    def claims(self) -> list[str]:
        """The claims of all experiments, each once."""
        return [
            *dict.fromkeys(
                claim for one in self.experiments.values() for claim in one.claims
            )
        ]

    @property
    def tuned(self) -> bool:
        """True if trials tune an experiment of the plan."""
        return any(one.tune for one in self.experiments.values())

    def as_data(self, rounds: Rounds = ()) -> dict[str, Any]:
        """Return the plan as plain data, with the `rounds` before it."""
        return {
            # As typed: without the folder of sweep.py, and without the `++` that sweep.py adds.
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
