"""Options as dataclasses: Hydra checks their keys and types, making one checks its range.

Comments and defaults are in the yaml of the same name under conf/hydra/.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, get_type_hints

from sweeper.size_server import SizeServer
from sweeper.store.errors import invalid_value
from sweeper.store.registry import ROOT
from sweeper.store.runs import Run, Status


class Limit(NamedTuple):
    """What a value has to fit, in code and in words; a field has it as `Annotated[int, limit]`."""

    fits: Callable[[Any], object]
    expected: str


def at_least(least: float) -> Limit:
    """A lower limit of a number."""
    return Limit(lambda value: value >= least, f"a number of at least {least:g}")


WORD = Limit(re.compile(r"[!-~]+").fullmatch, "a word without blanks")
"""A word cannot become two words or lines of a script."""
LINES = Limit(lambda lines: all(map(str.isprintable, lines)), "a list of printable lines")


@dataclass
class LimitedOptions:
    """Base of the options of a backend or of the sweep."""

    section: ClassVar[str] = "hydra.launcher"
    """Where a person sets them."""

    def __post_init__(self) -> None:
        """Refuse a value out of its limits; whether it may be null, its type says.

        Raises:
            UserError: what was expected of it.
        """
        for name, hint in get_type_hints(type(self), include_extras=True).items():
            for limit in getattr(hint, "__metadata__", ()):
                value = getattr(self, name)
                if value is not None and not limit.fits(value):
                    key = f"{self.section}.{name}"
                    raise invalid_value(key, value, limit.expected, "correct the value")


@dataclass(frozen=True)
class Resources:
    """What one run takes, from the `trainer` section of its config."""

    accelerator: str
    devices: int  # on each node
    nodes: int
    threads: int  # of each device's process

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Resources:
        """What a run with this config takes."""
        trainer = config["trainer"]
        return cls(
            trainer["accelerator"], trainer["devices"], trainer["num_nodes"], trainer["threads"]
        )

    @classmethod
    def of_record(cls, run: Path) -> Resources:
        """What the frozen run in this directory takes."""
        return cls.of(Run.open(run).record()["config"])

    def refuse_nodes(self, name: str) -> None:
        """UserError if a run wants several machines of a backend that starts it on one."""
        if self.nodes != 1:
            expected = f"1, since hydra/launcher={name} starts a run on one machine"
            raise invalid_value(
                "trainer.num_nodes", self.nodes, expected, "choose hydra/launcher=slurm"
            )


def device_hours(config: Mapping[str, Any], seconds: float) -> float:
    """What a run with this config costs that trains so long."""
    needed = Resources.of(config)
    return seconds * needed.devices * needed.nodes / 3600


@dataclass(frozen=True)
class BackendContext:
    """Where and for whom a backend works.

    `options` are its module's `Options`, `resources` are those of the plan's runs, and `process` is
    the warm process on this machine.
    """

    options: Any
    resources: Collection[Resources]
    logger: str
    outputs: Path
    process: SizeServer


@dataclass(frozen=True)
class Job:
    """What the schedule needs to know of a run."""

    run: str
    cost: float  # training FLOPs
    parent: str | None = None
    rank: int = 0  # what has a lower one starts first
    seconds: float | None = None  # what it is thought to take, where somebody asks


class Phase(StrEnum):
    """Where a run stands in this sweep."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    BLOCKED = "blocked"


@dataclass
class JobState:
    """A run in this sweep. `handle` is None while another sweep's process trains it."""

    job: Job
    phase: Phase = Phase.WAITING
    slot: int | None = None
    handle: int | None = None
    tries: int = 0
    """Starts since the last one that got further than those before it."""
    furthest: int = 0
    not_before: float = 0.0
    reason: str = ""
    status: Status | None = None
    """While it runs: as of the last look at its files."""

    def measure(self, status: Status) -> None:
        """Start counting anew if an attempt that has ended got further than those before it."""
        step = (status.heartbeat or {}).get("step", 0)
        if step > self.furthest:
            self.furthest, self.tries = step, 1


def counts(states: Mapping[str, JobState]) -> dict[Phase, int]:
    """How many runs are in each phase."""
    return {phase: sum(e.phase is phase for e in states.values()) for phase in Phase}


class Backend(Protocol):
    """Where runs execute. It starts frozen records and says when their processes have ended."""

    code: Path = ROOT
    """Where jobs find their code that do not start from this process; as it was when planned."""

    look_s: float = 1.0
    """Seconds, at least, between two looks at what a running job tells of itself: of a file system
    that many share, not everything is asked all the time."""

    queues: bool = False
    """Whether it takes a run whose parent is under way, and holds it back until that is done."""

    @property
    def slots(self) -> int:
        """How many runs it takes at a time."""

    @property
    def device(self) -> str:
        """What a run is trained on: "cpu" or "gpu"."""

    @property
    def note(self) -> str:
        """What it waits for that nobody here has to mend, in a line for a person, or nothing."""
        return ""

    @property
    def sharing(self) -> int:
        """How many of its slots are the same GPU."""
        return 1

    def start(self, run: Path, slot: int, after: int | None = None) -> int:
        """Start the frozen run in a directory; a handle. `after`: its parent's, while that runs."""

    def warm(self) -> None:
        """Begin with what makes the first start a quick one, if there is anything; do not wait."""
        return

    def grant(self, job: Job, free: Sequence[int]) -> int | None:
        """Return the slot to start a run in, or None if it has to wait.

        A backend may also return a taken slot, whose runs this one then joins. The schedule asks
        again about a run that has to wait, and starts no other before it.
        """
        return free[0] if free else None

    def ended(self, timeout: float) -> list[int]:
        """Handles of jobs that have ended; waits up to `timeout` seconds for the first."""

    def begun(self, job: int) -> bool:
        """Whether a job that has not ended may have begun: of one that waits nothing is asked."""
        return True

    def leave(self, command: Sequence[str]) -> str:
        """Have the sweep itself, a command, go on there without this process; where it stands, in
        a line for a person. Asked for by the option `leave`, where there is one."""
        raise AssertionError("it has no such option")

    def signal(self, job: int, number: int) -> None:
        """Send a signal to a job."""

    def exit_reason(self, job: int) -> str:
        """What only the engine knows of an end that a further start would not mend, or nothing."""
        return ""
