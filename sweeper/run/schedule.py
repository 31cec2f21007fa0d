"""The order of runs and their slots: parents first, longest first; a failure stops no other run.

What happened to a run is read from its record alone: neither an exit code of 0 nor an ended process
means anything.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from sweeper.run.backend import Backend
from sweeper.run.entries import Entry, Job, Phase
from sweeper.run.failures import Breaker, Policy
from sweeper.run.watchdog import Watchdog
from sweeper.store.liveness import send
from sweeper.store.runs import Cause, RunStore, State, Status

POLL_S = 0.5  # how often adopted runs are looked at and the display is redrawn


@dataclass
class Schedule:
    """Executes jobs on a backend; what happened to each is in `entries`."""

    store: RunStore
    backend: Backend
    jobs: Sequence[Job]
    policy: Policy
    changed: Callable[[Schedule, Entry | None], None] = lambda schedule, entry: None
    """Called with the entry whose phase changed, and with None at least every POLL_S seconds."""
    watchdog: Watchdog | None = None
    heed: Callable[[], None] = lambda: None
    """Called where everything is noted; raises KeyboardInterrupt if the sweep is to stop."""
    clock: Callable[[], float] = time.monotonic
    entries: dict[str, Entry] = field(init=False)
    breaker: Breaker = field(init=False)
    stopping: bool = False

    def __post_init__(self) -> None:
        self.breaker = Breaker(self.policy)
        ordered = sorted(self.jobs, key=lambda job: -job.cost)
        self.entries = {job.run: Entry(job) for job in ordered}

    def execute(self) -> bool:
        """Run everything; whether all of it is done.

        Ctrl-C asks the jobs to save and stop; a second one stops them at once.

        Raises:
            KeyboardInterrupt: after the jobs have stopped.
        """
        try:
            while self._fill() or self._in(Phase.RUNNING):
                self._reap(self.backend.ended(POLL_S))
                self._watch()
                self.heed()
        except KeyboardInterrupt:
            self._stop()
            raise
        return all(entry.phase is Phase.DONE for entry in self.entries.values())

    def _fill(self) -> bool:
        """Start what can be started; whether anything is left to start later."""
        if self.breaker.tripped:
            return False
        for entry in self._in(Phase.WAITING):
            parent = self._parent_phase(entry.job.parent)
            if parent in (Phase.FAILED, Phase.BLOCKED):
                self._now(entry, Phase.BLOCKED, f"its parent {entry.job.parent} {parent}")
            elif self.clock() >= entry.not_before and (
                parent is Phase.DONE or self._held_back(entry)
            ):
                status = self.store.run(entry.job.run).status()
                if status.state is State.DONE:
                    self._now(entry, Phase.DONE, "")
                elif status.state is State.RUNNING:
                    self._adopt(entry)
                elif (slot := self._free_slot()) is not None:
                    self._start(entry, slot)
        return bool(self._in(Phase.WAITING))

    def _start(self, entry: Entry, slot: int) -> None:
        entry.tries += 1
        entry.slot = slot
        parent = self.entries.get(entry.job.parent or "")
        after = parent.handle if parent else None
        entry.handle = self.backend.start(self.store.run(entry.job.run).path, slot, after)
        self._now(entry, Phase.RUNNING, "")

    def _adopt(self, entry: Entry) -> None:
        entry.slot = entry.handle = None
        self._now(entry, Phase.RUNNING, "adopted: a process of another sweep trains it")

    def _reap(self, handles: Sequence[int]) -> None:
        """Move on the runs whose own process, or whose adopted process, has ended."""
        for entry in self._in(Phase.RUNNING):
            if entry.handle in handles:
                self._settle(entry, self._after(entry))
            elif entry.handle is None:
                status = self.store.run(entry.job.run).status()
                if status.state is not State.RUNNING:
                    self._settle(entry, self._after(entry))
        self.changed(self, None)

    def _after(self, entry: Entry) -> Status:
        """The status of a run whose process has ended; one that had to be ended is said to hang."""
        run = self.store.run(entry.job.run)
        status = run.status()
        if status.cause in (Cause.KILLED, None) and status.state is not State.DONE:
            status = self._explained(status)
        hung = self.watchdog and self.watchdog.hung(f"{run.id}/{status.attempt}")
        if not hung or status.state not in (State.INTERRUPTED, State.FAILED):
            return status
        run.attempts()[-1].finish(Cause.HANG, hung, overrule=True)
        return run.status()

    def _explained(self, status: Status) -> Status:
        """An attempt that could say nothing, or could not even be claimed: for want of space?"""
        if self.store.full():
            reason = "disk_full: there was no room even for the word"
            return replace(status, cause=Cause.DISK_FULL, reason=reason)
        if status.state is State.NEW:
            # Killed, or the disk was full a moment ago: a further start may well begin.
            reason = "killed: ended before it had begun; start.log beside its record may say why"
            return replace(status, cause=Cause.KILLED, reason=reason)
        return status

    def _settle(self, entry: Entry, status: Status) -> None:
        if status.state is State.RUNNING and entry.handle is not None:
            self._adopt(entry)  # its own job withdrew before another's, or is out of reach
            return
        self._measure(entry, status)
        adopted = entry.handle is None
        last_word = "" if entry.handle is None else self.backend.last_word(entry.handle)
        entry.slot = entry.handle = None
        if status.state is State.DONE:
            self.breaker.done()
            self._now(entry, Phase.DONE, "")
        elif last_word:
            self._now(entry, Phase.FAILED, last_word)
        elif self._parent_phase(entry.job.parent) is not Phase.DONE and not self.stopping:
            entry.tries = 0  # held back in vain: its parent has failed, or is tried again
            self._now(entry, Phase.WAITING, "its parent has to be done first")
        elif not self.stopping and self.policy.halves(status):
            self._halve(entry, status)
        elif not self.stopping and (adopted or self.policy.again(status, entry.tries)):
            self._postpone(entry, status)
            self._now(entry, Phase.WAITING, status.reason)
        else:
            self.breaker.failed(entry.job.run, status)
            self._now(entry, Phase.FAILED, status.reason)

    def _halve(self, entry: Entry, status: Status) -> None:
        """Start a run that ran out of GPU memory again, with half the rows at a time."""
        run = self.store.run(entry.job.run)
        parts = run.halve_micro_batches(run.attempt(status.attempt))
        entry.tries = 0
        self._now(entry, Phase.WAITING, f"{status.reason}; now each batch in {parts} parts")

    def _measure(self, entry: Entry, status: Status) -> None:
        step = (status.beat or {}).get("step", 0)
        if step > entry.furthest:
            entry.furthest, entry.tries = step, 1

    def _postpone(self, entry: Entry, status: Status) -> None:
        """A full disk makes every run wait: each would only add to it."""
        until = self.clock() + self.policy.wait(max(1, entry.tries))
        full = status.cause is Cause.DISK_FULL
        for waiting in self._in(Phase.WAITING) if full else []:
            waiting.not_before = max(waiting.not_before, until)
        entry.not_before = until

    def _watch(self) -> None:
        for entry in self._in(Phase.RUNNING) if self.watchdog else []:
            run = self.store.run(entry.job.run)
            status = run.status()
            if self.watchdog and status.state is State.RUNNING:
                number = self.watchdog.due(f"{run.id}/{status.attempt}", status.beat)
                if number and entry.handle is not None:
                    self.backend.signal(entry.handle, number)
                elif number:
                    send(run.attempt(status.attempt).info(), number)

    def _stop(self) -> None:
        """Ask own jobs to save and stop, wait for them; a second Ctrl-C kills them."""
        self.stopping = True
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                for entry in self._own():
                    assert entry.handle is not None
                    self.backend.signal(entry.handle, number)
                while self._own():
                    self._reap(self.backend.ended(POLL_S))
                    self.heed()
                return
            except KeyboardInterrupt:
                continue

    def _held_back(self, entry: Entry) -> bool:
        """Whether the backend itself makes a run wait for its parent, which is under way there."""
        parent = self.entries.get(entry.job.parent or "")
        return self.backend.queues and parent is not None and parent.handle is not None

    def _parent_phase(self, parent: str | None) -> Phase:
        if parent is None:
            return Phase.DONE
        if parent in self.entries:
            return self.entries[parent].phase
        done = self.store.run(parent).status().state is State.DONE
        return Phase.DONE if done else Phase.FAILED

    def _free_slot(self) -> int | None:
        running = self._in(Phase.RUNNING)
        if len(running) >= self.backend.slots:  # adopted runs count too
            return None
        taken = {entry.slot for entry in running}
        free = (slot for slot in range(self.backend.slots) if slot not in taken)
        return next((slot for slot in free if self.backend.takes(slot)), None)

    def _in(self, phase: Phase) -> list[Entry]:
        return [entry for entry in self.entries.values() if entry.phase is phase]

    def _own(self) -> list[Entry]:
        return [entry for entry in self._in(Phase.RUNNING) if entry.handle is not None]

    def _now(self, entry: Entry, phase: Phase, reason: str) -> None:
        entry.phase, entry.reason = phase, reason
        self.changed(self, entry)
