"""What the schedule asks of a place where runs execute; the places are in `backends/`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from sweeper.run.job_states import Job
from sweeper.store.registry import ROOT


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

    @property
    def places(self) -> bool:
        """Whether it lets runs share a GPU by what each takes of it: their jobs have to say it."""
        return False

    def start(self, run: Path, slot: int, after: int | None = None) -> int:
        """Start the frozen run in a directory; a handle. `after`: its parent's, while that runs."""

    def warm(self) -> None:
        """Begin with what makes the first start a quick one, if there is anything; do not wait."""
        return

    def grant(self, job: Job, free: Sequence[int]) -> int | None:
        """The slot that a run is started in next: of the free ones, or one that it shares with what
        is there. None if it has to wait: then it is asked about again a moment later, and about no
        other before."""
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
