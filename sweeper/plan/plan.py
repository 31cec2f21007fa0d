"""What planning makes: points without and with a seed, the runs they share, the plan of it all."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sweeper.plan.experiment import Arm, Experiment
from sweeper.plan.sizes import Size
from sweeper.store.errors import sanitize


@dataclass(frozen=True)
class Matched:
    """What a point was matched to, and how well."""

    to: str
    count: str
    target: int
    achieved: int
    error: float


@dataclass(frozen=True)
class Chosen:
    """Values that were chosen for a point, and the runs that they were chosen by."""

    values: Mapping[str, Any]
    trials: Sequence[str]


@dataclass(frozen=True)
class UnseededPoint:
    """A point before its seed: its values, its config, its model's size, what it starts from."""

    arm: Arm
    values: Mapping[str, Any]
    config: Mapping[str, Any]
    size: Size = field(default_factory=dict)
    matched: Matched | None = None
    parent: UnseededPoint | None = None
    once: bool = False
    """Whether it has no seed but that of its config."""
    chosen: Chosen | None = None


@dataclass(frozen=True)
class Point:
    """One setting on a curve, and the run that measures it."""

    experiment: str
    arm: str
    task: str
    seed: int
    values: Mapping[str, Any]
    run: str
    matched: Matched | None
    chosen: Chosen | None = None

    def described(self) -> dict[str, Any]:
        """The point as plain data."""
        return {key: value for key, value in asdict(self).items() if key != "chosen" or value}


@dataclass(frozen=True)
class Run:
    """One training job. `names` are for people and dashboards; they are not its identity."""

    id: str
    config: Mapping[str, Any]
    size: Size
    names: Mapping[str, str]

    @property
    def label(self) -> str:
        """What it is called to a person."""
        return sanitize(f"{self.names['experiment']}/{self.names['arm']} {self.names['label']}")

    @property
    def parent(self) -> str | None:
        """The run whose weights this one starts from."""
        parent: str | None = self.config.get("parent")
        return parent

    @property
    def steps(self) -> int:
        """Steps the run trains."""
        steps: int = self.config["trainer"]["steps"]
        return steps

    @property
    def tokens(self) -> int:
        """Positions the run trains on."""
        return self.size["tokens"]

    @property
    def flops(self) -> int:
        """Training FLOPs of the whole run."""
        return self.tokens * self.size["flops_per_token"]


@dataclass(frozen=True)
class Plan:
    """The runs of a sweep and the points that use them.

    `texts` say what the text of each experiment is; `unseeded` are its points before their seeds;
    `tuning` is what was chosen for each experiment that is tuned, as plain data.
    """

    scale: str
    outputs: Path
    experiments: Mapping[str, Experiment]
    texts: Mapping[str, str]
    unseeded: Mapping[str, list[UnseededPoint]]
    points: list[Point] = field(default_factory=list)
    runs: Mapping[str, Run] = field(default_factory=dict)
    tuning: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)

    def by_experiment(self, runs: Collection[str]) -> dict[str, set[str]]:
        """Return those of the runs that each experiment needs, in the order they were typed in."""
        found: dict[str, set[str]] = {name: set() for name in self.experiments}
        for point in self.points:
            found[point.experiment] |= {point.run} & {*runs}
        return found
