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
from sweeper.store.errors import sanitize

Rounds = Sequence[Mapping[str, Any]]
"""The rounds before a plan as plain data: what each bought and found."""


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
    """Values for a point by tuning, and the trial runs behind the choice."""

    values: Mapping[str, Any]
    trials: Sequence[str]


@dataclass(frozen=True)
class Configuration:
    """A point without a seed.

    `alternative_to`: the values of the point that it is, with values of the tuned keys that trials
    cannot tell from the chosen ones.
    """

    arm: Arm
    values: Mapping[str, Any]  # of its arm's grid
    config: Mapping[str, Any]  # of its runs, but for the seed
    size: Size = field(default_factory=dict)
    matched: Matched | None = None
    parent: Configuration | None = None  # whose runs its own start from
    once: bool = False  # whether it has only the seed of its config
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
class PlannedRun:
    """One training job; `names` are for people and dashboards and not part of its identity."""

    id: str
    config: Mapping[str, Any]
    size: Size
    names: Mapping[str, str]

    @property
    def label(self) -> str:
        """The name for people."""
        return sanitize(f"{self.names['experiment']}/{self.names['arm']} {self.names['label']}")

    @property
    def parent(self) -> str | None:
        """The run whose weights this one starts from."""
        parent: str | None = self.config.get("parent")
        return parent

    @property
    def steps(self) -> int:
        """The number of training steps."""
        steps: int = self.config["trainer"]["steps"]
        return steps

    @property
    def flops(self) -> int:
        """Training FLOPs of the run."""
        return int(self.size["tokens"] * self.size["flops_per_token"])


@dataclass(frozen=True)
class Plan:
    """The runs of a sweep and the points that use them; mappings but `runs` are by experiment."""

    scale: str
    outputs: Path
    experiments: Mapping[str, Experiment]
    texts: Mapping[str, str]  # in words
    configurations: Mapping[str, list[Configuration]]  # before their seeds
    points: list[PlannedPoint] = field(default_factory=list)
    runs: Mapping[str, PlannedRun] = field(default_factory=dict)
    tuning: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)  # choices
    accept_mixed_code: bool = False  # whether runs of different code may decide a claim

    @property
    def claims(self) -> list[str]:
        """The claims of its experiments."""
        return [*dict.fromkeys(claim for one in self.experiments.values() for claim in one.claims)]

    @property
    def tuned(self) -> bool:
        """True if trials choose values of its points."""
        return any(one.tune for one in self.experiments.values())

    def as_data(self, rounds: Rounds = ()) -> dict[str, Any]:
        """Return the plan as plain data; `rounds` are those before it."""
        return {
            # Wherever sweep.py lies, and without the plus signs that it adds.
            "command": [
                Path(sys.argv[0]).name,
                *(re.sub(r"^\+\+experiment\.", "experiment.", one) for one in sys.argv[1:]),
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
                run.id: {"size": run.size, "parent": run.parent} for run in self.runs.values()
            },
            **({"rounds": list(rounds)} if rounds else {}),
            **({"accept_mixed_code": True} if self.accept_mixed_code else {}),
        }
