"""Stop 4 of the road: which run starts when, and where. Parents first, longest first, by rank.

A run that has to wait for room on a GPU is overtaken by none.

In: frozen records and a backend. Out: finished runs, or the reason why not: a failure stops no
other run. What happened to a run is read from its record alone: neither an exit code of 0 nor an
ended process means anything. Next: a job, `tasks/train.py`, whose loop is tasks/training/loop.py.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from sweeper.run.backend import Backend
from sweeper.run.failures import Breaker, Policy
from sweeper.run.job_states import Job, JobState, Phase
from sweeper.run.looks import Looks
from sweeper.run.watchdog import Watchdog
from sweeper.store.liveness import send
from sweeper.store.runs import Cause, RunStore, State, Status

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
        elif not self.stopping and self._given_more(state, status):
            state.tries = 0
        elif not self.stopping and (adopted or self.policy.again(status, state.tries)):
            self._postpone(state, status)
            self._now(state, Phase.WAITING, status.reason)
        else:
            self.breaker.failed(state.job.run, status)
            self._now(state, Phase.FAILED, status.reason)

    def _given_more(self, state: JobState, status: Status) -> bool:
        """Whether a run that ran out of GPU memory is started again: with a GPU to itself, and then
        with half the rows at a time."""
        if status.cause is Cause.OUT_OF_GPU_MEMORY and state.job.share:
            state.job = replace(state.job, share=None)
            how = "with a GPU to itself"
        elif self.policy.halves(status):
            run = self.store.run(state.job.run)
            how = f"each batch in {run.halve_micro_batches(run.attempt(status.attempt))} parts"
        else:
            return False
        self._now(state, Phase.WAITING, f"{status.reason}; now {how}")
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
