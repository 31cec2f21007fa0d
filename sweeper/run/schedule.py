"""How far running runs are, read from their files: as often as serves, and no oftener.

A look is some questions to the file server, and of hundreds of runs each would be asked for twice
a second, though a job tells of itself every few seconds.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from sweeper.run.backend import Backend, Job, JobState, Phase
from sweeper.run.failures import Breaker, Policy
from sweeper.run.watchdog import Watchdog
from sweeper.store.attempts import Cause
from sweeper.store.liveness import send
from sweeper.store.runs import Run, RunStore, State, Status
from sweeper.store.runs import running as still_running

MANY = 15  # running runs; of more, each is looked at the more rarely


@dataclass
class Looks:
    """Looks at the runs of a schedule."""

    store: RunStore
    every_s: float  # between two looks at the same run, at least
    _due: float = 0.0
    _runs: dict[str, Run] = field(default_factory=dict)
    _done: set[str] = field(default_factory=set)
    _waits: tuple[str, float, State] = ("", 0.0, State.NEW)

    def at(self, running: Sequence[JobState]) -> bool:
        """Note the status of each run, unless that was done a moment ago; whether it was done."""
        now = time.monotonic()
        if now < self._due:
            return False
        self._due = now + self.every_s * max(1.0, len(running) / MANY)
        for state in running:
            state.status = self._status(state)
        return True

    def before(self, run: str) -> State:
        """How a run stands whose turn has come; while it waits for room, as of a moment ago."""
        asked, until, state = self._waits
        now = time.monotonic()
        if asked != run or now >= until:
            state = self.store.run(run).status().state
            if state not in (State.DONE, State.RUNNING):
                self._waits = run, now + self.every_s, state
        return state

    def done(self, run: str) -> bool:
        """Whether a run is done that is in no schedule: asked until it is."""
        if run not in self._done and self.store.run(run).status().state is State.DONE:
            self._done.add(run)
        return run in self._done

    def _status(self, state: JobState) -> Status:
        """One question while nothing but its heartbeat, or nothing at all, has changed."""
        name, known = state.job.run, state.status
        run = self._runs.get(name) or self._runs.setdefault(name, self.store.run(name))
        if known and known.state is State.NEW and not run.attempts():
            return known
        if known and known.state is State.RUNNING:
            beat = run.attempt(known.attempt).last_heartbeat()
            if beat and beat != known.heartbeat:
                return still_running(known.attempt, beat)
        return run.status()


POLL_S = 0.5  # how often adopted runs are looked at and the display is redrawn


@dataclass
class Schedule:
    """Executes jobs on a backend; what happened to each is in `states`."""

    store: RunStore
    backend: Backend
    jobs: Sequence[Job]
    policy: Policy
    changed: Callable[[Schedule, JobState | None], None] = lambda schedule, state: None
    """Called with what changed its phase, and with None at least every POLL_S seconds."""
    watchdog: Watchdog | None = None
    check_for_stop: Callable[[], None] = lambda: None
    """Called where everything is noted; raises KeyboardInterrupt if the sweep is to stop."""
    clock: Callable[[], float] = time.monotonic
    states: dict[str, JobState] = field(init=False)
    looks: Looks = field(init=False)
    breaker: Breaker = field(init=False)
    stopping: bool = False

    def __post_init__(self) -> None:
        self.breaker = Breaker(self.policy)
        self.looks = Looks(self.store, self.backend.look_s)
        ordered = sorted(self.jobs, key=lambda job: (job.rank, -job.cost))
        self.states = {job.run: JobState(job) for job in ordered}

    def execute(self) -> bool:
        """Run everything; whether all of it is done.

        Ctrl-C asks the jobs to save and stop; a second one stops them at once.

        Raises:
            KeyboardInterrupt: after the jobs have stopped.
        """
        try:
            while self._fill() or self._in(Phase.RUNNING):
                self._reap(self.backend.ended(POLL_S))
                self.check_for_stop()
        except KeyboardInterrupt:
            self._stop()
            raise
        return all(state.phase is Phase.DONE for state in self.states.values())

    def _fill(self) -> bool:
        """Start what can be started; whether anything is left to start later."""
        if self.breaker.tripped:
            return False
        room = True
        for state in self._due():
            before = self.looks.before(state.job.run) if room else None
            if before is State.DONE:
                self._now(state, Phase.DONE, "")
            elif before is State.RUNNING:
                self._adopt(state)
            elif room and (slot := self._granted(state.job)) is not None:
                state.tries, state.slot = state.tries + 1, slot
                parent = self.states.get(state.job.parent or "")
                run = self.store.run(state.job.run).path
                state.handle = self.backend.start(run, slot, parent.handle if parent else None)
                self._now(state, Phase.RUNNING, "")
            else:
                room = False
        return bool(self._in(Phase.WAITING))

    def _due(self) -> Iterator[JobState]:
        """What may start now, if there is room; what waits for a parent in vain is blocked."""
        for state in self._in(Phase.WAITING):
            parent = self._parent_phase(state.job.parent)
            if parent in (Phase.FAILED, Phase.BLOCKED):
                self._now(state, Phase.BLOCKED, f"its parent {state.job.parent} {parent}")
            elif self.clock() >= state.not_before and (
                parent is Phase.DONE or self._held_back(state)
            ):
                yield state

    def _adopt(self, state: JobState) -> None:
        state.slot = state.handle = None
        self._now(state, Phase.RUNNING, "adopted: a process of another sweep trains it")

    def _reap(self, handles: Sequence[int]) -> None:
        """Move on the runs whose own process, or whose adopted process, has ended."""
        for state in self._in(Phase.RUNNING):
            if state.handle in handles:
                self._settle(state, self._after(state))
        running = self._in(Phase.RUNNING)
        begun = [s for s in running if s.handle is None or self.backend.begun(s.handle)]
        if self.looks.at(begun):
            self._watch()
        self.changed(self, None)

    def _after(self, state: JobState) -> Status:
        """The status of a run whose process has ended; one that had to be ended is said to hang."""
        run = self.store.run(state.job.run)
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

    def _settle(self, state: JobState, status: Status) -> None:
        if status.state is State.RUNNING and state.handle is not None:
            self._adopt(state)  # its own job withdrew before another's, or is out of reach
            return
        state.measure(status)
        adopted = state.handle is None
        exit_reason = "" if state.handle is None else self.backend.exit_reason(state.handle)
        state.slot = state.handle = None
        if status.state is State.DONE:
            self.breaker.done()
            self._now(state, Phase.DONE, "")
        elif exit_reason:
            self._now(state, Phase.FAILED, exit_reason)
        elif self._parent_phase(state.job.parent) is not Phase.DONE and not self.stopping:
            state.tries = 0  # held back in vain: its parent has failed, or is tried again
            self._now(state, Phase.WAITING, "its parent has to be done first")
        elif not self.stopping and self._halve(state, status):
            state.tries = 0
        elif not self.stopping and (adopted or self.policy.again(status, state.tries)):
            self._postpone(state, status)
            self._now(state, Phase.WAITING, status.reason)
        else:
            self.breaker.failed(state.job.run, status)
            self._now(state, Phase.FAILED, status.reason)

    def _halve(self, state: JobState, status: Status) -> bool:
        """Start a run that ran out of GPU memory again with half the rows at a time, if asked to.

        Returns whether it starts again.
        """
        if status.cause is not Cause.OUT_OF_GPU_MEMORY:
            return False
        run = self.store.run(state.job.run)
        auto = run.record()["config"]["trainer"].get("micro_batches") == "auto"
        if not self.policy.halves(auto=auto):
            return False
        parts = run.halve_micro_batches(run.attempt(status.attempt))
        reason = f"{status.reason}; now each batch in {parts} parts"
        self._now(state, Phase.WAITING, reason)
        return True

    def _postpone(self, state: JobState, status: Status) -> None:
        """A full disk makes every run wait: each would only add to it."""
        until = self.clock() + self.policy.wait(max(1, state.tries))
        full = status.cause is Cause.DISK_FULL
        for waiting in self._in(Phase.WAITING) if full else []:
            waiting.not_before = max(waiting.not_before, until)
        state.not_before = until

    def _watch(self) -> None:
        """Move on adopted runs that have ended; signal what hangs."""
        watchdog = None if self.stopping else self.watchdog
        for state in self._in(Phase.RUNNING):
            run, status = state.job.run, state.status
            if status is None or status.state is not State.RUNNING:
                if status and state.handle is None:
                    self._settle(state, self._after(state))
            elif watchdog:
                number = watchdog.due(f"{run}/{status.attempt}", status.heartbeat)
                if number and state.handle is not None:
                    self.backend.signal(state.handle, number)
                elif number:
                    send(self.store.run(run).attempt(status.attempt).info(), number)

    def _stop(self) -> None:
        """Ask own jobs to save and stop, wait for them; a second Ctrl-C kills them."""
        self.stopping = True
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(KeyboardInterrupt):
                for state in self._own():
                    assert state.handle is not None
                    self.backend.signal(state.handle, number)
                while self._own():
                    self._reap(self.backend.ended(POLL_S))
                    self.check_for_stop()
                return

    def _held_back(self, state: JobState) -> bool:
        """Whether the backend itself makes a run wait for its parent, which is under way there."""
        parent = self.states.get(state.job.parent or "")
        return self.backend.queues and parent is not None and parent.handle is not None

    def _parent_phase(self, parent: str | None) -> Phase:
        if parent is None:
            return Phase.DONE
        if parent in self.states:
            return self.states[parent].phase
        return Phase.DONE if self.looks.done(parent) else Phase.FAILED

    def _granted(self, job: Job) -> int | None:
        running = self._in(Phase.RUNNING)
        taken = {state.slot for state in running}
        adopted = sum(state.slot is None for state in running)  # they count too
        free = [slot for slot in range(self.backend.slots) if slot not in taken]
        return self.backend.grant(job, free[: max(0, len(free) - adopted)])

    def _in(self, phase: Phase) -> list[JobState]:
        return [state for state in self.states.values() if state.phase is phase]

    def _own(self) -> list[JobState]:
        return [state for state in self._in(Phase.RUNNING) if state.handle is not None]

    def _now(self, state: JobState, phase: Phase, reason: str) -> None:
        state.phase, state.reason, state.status = phase, reason, None
        self.changed(self, state)
