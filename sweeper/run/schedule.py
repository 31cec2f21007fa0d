"""The schedule: starts the jobs of a sweep, parents first, and settles what happens to each."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum

from sweeper.run.backend import Backend, Job
from sweeper.run.failures import Breaker, Watchdog, hours
from sweeper.run.options import SweepOptions
from sweeper.store.attempts import Cause
from sweeper.store.liveness import send
from sweeper.store.runs import Run, RunStore, State, Status, running

POLL_S = 0.5  # between two looks at adopted runs, and two drawings of the display
MANY = 15  # running runs; beyond, each is polled less often, to spare the file server


class Phase(StrEnum):
    """The phase of a run in this sweep."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    BLOCKED = "blocked"
    STOPPED = "stopped"  # by Ctrl-C or SIGTERM; the same command continues it


@dataclass
class JobState:
    """A run in this sweep. `handle` is None while another sweep's process trains it."""

    job: Job
    phase: Phase = Phase.WAITING
    slot: int | None = None
    handle: int | None = None
    own: bool = False  # this sweep started it, perhaps before it lost sight of it
    before: int = 0  # the newest attempt when it was started; 0 if a queue starts it later
    tries: int = 0  # starts since the last one that got further than all before it
    furthest: int = 0
    not_before: float = 0.0
    reason: str = ""
    status: Status | None = None  # while it runs: as of the last poll


def counts(states: Mapping[str, JobState]) -> dict[Phase, int]:
    """Return the number of runs in each phase."""
    return {phase: sum(e.phase is phase for e in states.values()) for phase in Phase}


@dataclass
class StatusPoller:
    """A reader of run statuses that limits how often it asks the file server."""

    store: RunStore
    interval_s: float  # at least, between two polls of the same run
    _due: float = 0.0
    _runs: dict[str, Run] = field(default_factory=dict)
    _done: set[str] = field(default_factory=set)
    _next: tuple[str, float, State] = ("", 0.0, State.NEW)

    def poll(self, states: Sequence[JobState]) -> bool:
        """Update the status of running runs; return False, and do nothing, if it is too early."""
        now = time.monotonic()
        if now < self._due:
            return False
        self._due = now + self.interval_s * max(1.0, len(states) / MANY)
        for state in states:
            name, known = state.job.run, state.status
            run = self._runs.get(name) or self._runs.setdefault(name, self.store.run(name))
            if known and known.state is State.NEW and not run.attempts():
                continue
            heartbeat = None
            if known and known.state is State.RUNNING:
                heartbeat = run.attempt(known.attempt).last_heartbeat()
            if known and heartbeat and heartbeat != known.heartbeat:
                state.status = running(known.attempt, heartbeat)
            else:
                state.status = run.status()
        return True

    def before_start(self, run: str) -> State:
        """Return the state of the run that starts next; while it waits, of a moment ago."""
        asked, until, state = self._next
        now = time.monotonic()
        if asked != run or now >= until:
            state = self.store.run(run).status().state
            if state not in (State.DONE, State.RUNNING):
                self._next = run, now + self.interval_s, state
        return state

    def done(self, run: str) -> bool:
        """Return whether a run outside the schedule is done; a run that is done stays so."""
        if run not in self._done and self.store.run(run).status().state is State.DONE:
            self._done.add(run)
        return run in self._done


@dataclass
class Schedule:
    """The execution of jobs on a backend.

    `changed` is called with each job that changes its phase, and with None every POLL_S seconds;
    `check_for_stop` between two steps: it raises KeyboardInterrupt to stop the sweep.
    """

    store: RunStore
    backend: Backend
    jobs: Sequence[Job]
    policy: SweepOptions
    changed: Callable[[Schedule, JobState | None], None] = lambda schedule, state: None
    check_for_stop: Callable[[], None] = lambda: None
    clock: Callable[[], float] = time.monotonic
    spent_h: float = 0.0  # device hours before; they count in the policy's budget
    states: dict[str, JobState] = field(init=False)  # by run
    poller: StatusPoller = field(init=False)
    breaker: Breaker = field(init=False)
    watchdog: Watchdog | None = field(init=False)
    stopping: bool = False

    def __post_init__(self) -> None:
        self.breaker = Breaker(self.policy, self.spent_h)
        hang_s, grace_s = self.policy.hang_after_s, self.policy.hang_grace_s
        self.watchdog = Watchdog(hang_s, grace_s) if hang_s else None
        self.poller = StatusPoller(self.store, self.backend.poll_s)
        ordered = sorted(self.jobs, key=lambda job: (job.rank, -job.cost))
        self.states = {job.run: JobState(job) for job in ordered}

    def execute(self) -> bool:
        """Run all jobs; return whether all runs are done.

        Ctrl-C asks the jobs to save and stop, a second one kills them; then it is raised again.
        """
        try:
            while self._start_jobs() or self._in(Phase.RUNNING):
                self._collect_ended()
        except KeyboardInterrupt:
            self._stop()
            raise
        return all(state.phase is Phase.DONE for state in self.states.values())

    def _start_jobs(self) -> bool:
        """Start jobs while there are slots; return whether any are left to start later."""
        if self.breaker.tripped:
            return False
        room = True
        for state in self._startable():
            before = self.poller.before_start(state.job.run) if room else None
            if before is State.DONE:
                self._move(state, Phase.DONE)
            elif before is State.RUNNING:
                self._adopt(state)
            elif room and (slot := self.backend.grant(state.job, self._free())) is not None:
                state.tries, state.slot, state.own = state.tries + 1, slot, True
                parent = self.states.get(state.job.parent or "")
                run = self.store.run(state.job.run)
                earlier = [] if self.backend.queues else run.attempts()
                state.before = earlier[-1].number if earlier else 0
                state.handle = self.backend.start(run.path, slot, parent.handle if parent else None)
                self._move(state, Phase.RUNNING)
            else:
                room = False
        return bool(self._in(Phase.WAITING))

    def _startable(self) -> Iterator[JobState]:
        """Yield the jobs that may start now; block those whose parent failed."""
        for state in self._in(Phase.WAITING):
            parent = self._parent_phase(state.job.parent)
            if parent in (Phase.FAILED, Phase.BLOCKED):
                self._move(state, Phase.BLOCKED, f"its parent {state.job.parent} {parent}")
            elif self.clock() >= state.not_before:
                # Some backends queue a job behind its parent, which need not be done then.
                queued = self.states.get(state.job.parent or "") if self.backend.queues else None
                if parent is Phase.DONE or (queued and queued.handle is not None):
                    yield state

    def _free(self) -> list[int]:
        """Return the slots without a job; a run of another sweep takes one too."""
        running = self._in(Phase.RUNNING)
        taken = {state.slot for state in running}
        adopted = sum(state.slot is None for state in running)
        free = [slot for slot in range(self.backend.slots) if slot not in taken]
        return free[: max(0, len(free) - adopted)]

    def _adopt(self, state: JobState) -> None:
        """Follow a run that another sweep started; it takes the slot of the GPUs that it uses."""
        run = self.store.run(state.job.run)
        gpus = run.attempt(run.status().attempt).info().get("visible_gpus")
        taken = {other.slot for other in self._in(Phase.RUNNING) if other is not state}
        free = (slot for slot in range(self.backend.slots) if slot not in taken)
        same = (slot for slot in free if gpus and self.backend.devices(slot) == gpus)
        state.slot, state.handle, state.before = next(same, None), None, 0
        self._move(state, Phase.RUNNING, "adopted: a process of another sweep trains it")

    def _collect_ended(self) -> None:
        """Settle the jobs that ended; let the watchdog signal those that hang; stop if asked to."""
        handles = self.backend.ended(POLL_S)
        for state in self._in(Phase.RUNNING):
            if state.handle in handles:
                self._settle(state)
        begun = [
            state
            for state in self._in(Phase.RUNNING)
            if state.handle is None or self.backend.begun(state.handle)
        ]
        watchdog = None if self.stopping else self.watchdog
        for state in self._in(Phase.RUNNING) if self.poller.poll(begun) else []:
            run, status = state.job.run, state.status
            if status is None or status.state is not State.RUNNING:
                if status and state.handle is None:
                    self._settle(state)
            elif watchdog:
                number = watchdog.due(f"{run}/{status.attempt}", status.heartbeat)
                if number and state.handle is not None:
                    self.backend.signal(state.handle, number)
                elif number:
                    send(self.store.run(run).attempt(status.attempt).info(), number)
        self.changed(self, None)
        self.check_for_stop()

    def _final_status(self, state: JobState) -> Status:
        """Return the status of a run whose process has ended, with the cause known from outside."""
        run = self.store.run(state.job.run)
        status = run.status()
        idle = status.state is State.NEW or 0 < status.attempt == state.before
        if status.state is not State.DONE and (idle or status.cause in (Cause.KILLED, None)):
            if self.store.full():
                reason = "disk_full: the job could not write why it ended"
                status = replace(status, cause=Cause.DISK_FULL, reason=reason)
            elif idle:
                # Killed, or the disk was full a moment ago: another start may succeed.
                log = self.backend.start_log(state.handle)
                reason = f"killed: ended before its attempt; {log} may say why"
                status = replace(status, cause=Cause.KILLED, reason=reason, heartbeat=None)
        hung = not idle and self.watchdog and self.watchdog.hung(f"{run.id}/{status.attempt}")
        if not hung or status.state not in (State.INTERRUPTED, State.FAILED):
            return status
        run.attempts()[-1].finish(Cause.HANG, hung, overrule=True)
        return run.status()

    def _settle(self, state: JobState) -> None:
        """Move a job that ended to its next phase: done, failed, or waiting for another start."""
        status = self._final_status(state)
        if status.state is State.RUNNING and state.handle is not None:
            self._adopt(state)  # its job gave way to another sweep's, or cannot be reached
            return
        step = (status.heartbeat or {}).get("step", 0)
        if step > state.furthest:
            state.furthest, state.tries = step, 1
        adopted = state.handle is None and not state.own
        exit_reason = "" if state.handle is None else self.backend.exit_reason(state.handle)
        state.slot = state.handle = None
        if status.state is State.DONE:
            counted = self.policy.budget_device_hours is not None
            self.breaker.done(hours(self.store, [state.job.run]) if counted else 0.0)
            self._move(state, Phase.DONE)
        elif self.stopping and status.state is not State.FAILED:
            self._move(state, Phase.STOPPED, status.reason)
        elif exit_reason:
            self._move(state, Phase.FAILED, exit_reason)
        elif self._parent_phase(state.job.parent) is not Phase.DONE and not self.stopping:
            state.tries = 0  # the backend queued it behind a parent that did not finish
            self._move(state, Phase.WAITING, "its parent has to be done first")
        elif not self.stopping and (parts := self._halved(state.job.run, status)):
            state.tries = 0
            self._move(state, Phase.WAITING, f"{status.reason}; now each batch in {parts} parts")
        elif not self.stopping and (adopted or self.policy.again(status, state.tries)):
            state.not_before = self.clock() + self.policy.wait(max(1, state.tries))
            if status.cause is Cause.DISK_FULL:  # every run waits: each would only add to it
                for waiting in self._in(Phase.WAITING):
                    waiting.not_before = max(waiting.not_before, state.not_before)
            self._move(state, Phase.WAITING, status.reason)
        else:
            self.breaker.failed(state.job.run, status)
            self._move(state, Phase.FAILED, status.reason)

    def _halved(self, name: str, status: Status) -> int:
        """Halve the rows computed at a time after out of GPU memory, if asked; return the parts."""
        if status.cause is not Cause.OUT_OF_GPU_MEMORY:
            return 0
        run = self.store.run(name)
        auto = run.record()["config"]["trainer"].get("micro_batches") == "auto"
        if not self.policy.halves(auto=auto):
            return 0
        return run.halve_micro_batches(run.attempt(status.attempt))

    def _stop(self) -> None:
        """Ask own jobs to save and stop, and wait for them; a second Ctrl-C kills them."""
        self.stopping = True
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(KeyboardInterrupt):
                for state in self._in(Phase.RUNNING):
                    if state.handle is not None:
                        self.backend.signal(state.handle, number)
                while any(state.handle is not None for state in self._in(Phase.RUNNING)):
                    self._collect_ended()
                return

    def _parent_phase(self, parent: str | None) -> Phase:
        if parent is None:
            return Phase.DONE
        if parent in self.states:
            return self.states[parent].phase
        return Phase.DONE if self.poller.done(parent) else Phase.FAILED

    def _in(self, phase: Phase) -> list[JobState]:
        return [state for state in self.states.values() if state.phase is phase]

    def _move(self, state: JobState, phase: Phase, reason: str = "") -> None:
        state.phase, state.reason, state.status = phase, reason, None
        self.changed(self, state)
