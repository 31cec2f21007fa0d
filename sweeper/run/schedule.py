"""The schedule: it starts the jobs of a sweep, parents first, and handles the end of each.

Stop 4 of the road. In: frozen records, as jobs with costs and parents, and a backend. Out: each run
is done or failed. Next: tasks/training/job.py, in the process of a job.
"""

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

# Seconds between two checks for ended jobs, and two drawings of the display.
POLL_S = 0.5
MANY = 15  # if more runs are running, poll each less often, to spare the file server


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
    """A run in this sweep. `handle` is None while a process of another sweep trains it."""

    job: Job
    phase: Phase = Phase.WAITING
    slot: int | None = None
    handle: int | None = None
    own: bool = False  # whether this sweep started it at some time
    before: int = 0  # the newest attempt before its start; 0 if the backend queues it
    tries: int = 0  # starts since an attempt last reached a new highest step
    furthest: int = 0  # the highest step of any attempt
    not_before: float = 0.0
    reason: str = ""
    status: Status | None = None  # while it runs: the status at the last poll


def counts(states: Mapping[str, JobState]) -> dict[Phase, int]:
    """Return the number of runs in each phase."""
    return {phase: sum(e.phase is phase for e in states.values()) for phase in Phase}


@dataclass
class StatusPoller:
    """A reader of run statuses that limits how often it reads files."""

    store: RunStore
    interval_s: float  # the least time between two polls of a run
    _due: float = 0.0
    _runs: dict[str, Run] = field(default_factory=dict)
    _done: set[str] = field(default_factory=set)
    _next: tuple[str, float, State] = ("", 0.0, State.NEW)

    def poll(self, states: Sequence[JobState]) -> bool:
        """Update the status of running runs. If it is too early, do nothing and return False."""
        now = time.monotonic()
        if now < self._due:
            return False
        self._due = now + self.interval_s * max(1.0, len(states) / MANY)
        for state in states:
            name, known = state.job.run, state.status
            run = self._runs.get(name) or self._runs.setdefault(
                name, self.store.run(name)
            )
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
        """Return the state of the run that starts next.

        While that run waits, return its state of up to `interval_s` seconds ago.
        """
        asked, until, state = self._next
        now = time.monotonic()
        if asked != run or now >= until:
            state = self.store.run(run).status().state
            if state not in (State.DONE, State.RUNNING):
                self._next = run, now + self.interval_s, state
        return state

    def done(self, run: str) -> bool:
        """Return whether a run outside the schedule is done. Do not read a done run again."""
        if run not in self._done and self.store.run(run).status().state is State.DONE:
            self._done.add(run)
        return run in self._done


@dataclass
class Schedule:
    """The execution of jobs on a backend.

    The schedule calls `changed` with each job that changes its phase, and with None every POLL_S
    seconds. It calls `check_for_stop` as often; that raises KeyboardInterrupt to stop the sweep.
    """

    store: RunStore
    backend: Backend
    jobs: Sequence[Job]
    policy: SweepOptions
    changed: Callable[[Schedule, JobState | None], None] = lambda schedule, state: None
    check_for_stop: Callable[[], None] = lambda: None
    clock: Callable[[], float] = time.monotonic
    spent_h: float = 0.0  # device hours of earlier runs, which count against the budget
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
        """Run all jobs. Return whether all runs are done.

        On KeyboardInterrupt (Ctrl-C), ask the jobs to save and stop, and raise it again. A second
        Ctrl-C kills the jobs.
        """
        try:
            while self._start_jobs() or self._in(Phase.RUNNING):
                self._collect_ended()
        except KeyboardInterrupt:
            self._stop()
            raise
        return all(state.phase is Phase.DONE for state in self.states.values())

    def _start_jobs(self) -> bool:
        """Start jobs while there are free slots. Return whether other jobs still wait."""
        if self.breaker.tripped:
            return False
        room = True
        for state in self._startable():
            before = self.poller.before_start(state.job.run) if room else None
            if before is State.DONE:
                self._move(state, Phase.DONE)
            elif before is State.RUNNING:
                self._adopt(state)
            elif (
                room
                and (slot := self.backend.grant(state.job, self._free())) is not None
            ):
                self._start(state, slot)
            else:
                room = False
        return bool(self._in(Phase.WAITING))

    def _start(self, state: JobState, slot: int) -> None:
        run = self.store.run(state.job.run)
        parent = self.states.get(state.job.parent or "")
        earlier = [] if self.backend.queues else run.attempts()
        state.before = earlier[-1].number if earlier else 0
        state.tries, state.slot, state.own = state.tries + 1, slot, True
        state.handle = self.backend.start(
            run.path, slot, parent.handle if parent else None
        )
        self._move(state, Phase.RUNNING)

    def _startable(self) -> Iterator[JobState]:
        """Yield the jobs that may start now. Block jobs whose parent failed."""
        for state in self._in(Phase.WAITING):
            parent = self._parent_phase(state.job.parent)
            if parent in (Phase.FAILED, Phase.BLOCKED):
                self._move(
                    state, Phase.BLOCKED, f"its parent {state.job.parent} {parent}"
                )
            elif self.clock() >= state.not_before:
                # A backend with a queue also takes a job whose parent is still running.
                queued = (
                    self.states.get(state.job.parent or "")
                    if self.backend.queues
                    else None
                )
                if parent is Phase.DONE or (queued and queued.handle is not None):
                    yield state

    def _free(self) -> list[int]:
        """Return the free slots. An adopted run without a known slot takes up one of them."""
        running = self._in(Phase.RUNNING)
        taken = {state.slot for state in running}
        adopted = sum(state.slot is None for state in running)
        free = [slot for slot in range(self.backend.slots) if slot not in taken]
        return free[: max(0, len(free) - adopted)]

    def _adopt(self, state: JobState) -> None:
        """Follow a run that another sweep's process trains. It takes up the slot of its GPUs."""
        run = self.store.run(state.job.run)
        gpus = run.attempt(run.status().attempt).info().get("visible_gpus")
        taken = {other.slot for other in self._in(Phase.RUNNING) if other is not state}
        free = (slot for slot in range(self.backend.slots) if slot not in taken)
        same = (slot for slot in free if gpus and self.backend.devices(slot) == gpus)
        state.slot, state.handle, state.before = next(same, None), None, 0
        self._move(state, Phase.RUNNING, "adopted: another sweep's process trains it")

    def _collect_ended(self) -> None:
        """Handle jobs that ended or hang. Raise KeyboardInterrupt if the sweep is to stop."""
        handles = self.backend.ended(POLL_S)
        for state in self._in(Phase.RUNNING):
            if state.handle in handles:
                self._settle(state)

        begun = [
            state
            for state in self._in(Phase.RUNNING)
            if state.handle is None or self.backend.begun(state.handle)
        ]
        if self.poller.poll(begun):
            for state in self._in(Phase.RUNNING):
                status = state.status
                if status and status.state is State.RUNNING:
                    self._signal_if_hung(state, status)
                elif (
                    status and state.handle is None
                ):  # no backend reports the end of this run
                    self._settle(state)

        self.changed(self, None)
        self.check_for_stop()

    def _signal_if_hung(self, state: JobState, status: Status) -> None:
        """Send the signal that the watchdog wants, to our job or to another sweep's process."""
        if self.stopping or not self.watchdog:
            return
        run = state.job.run
        number = self.watchdog.due(f"{run}/{status.attempt}", status.heartbeat)
        if number and state.handle is not None:
            self.backend.signal(state.handle, number)
        elif number:
            send(self.store.run(run).attempt(status.attempt).info(), number)

    def _final_status(self, state: JobState) -> Status:
        """Return the status of a run whose process has ended.

        If the process could not write its cause, add what the schedule knows: a full disk, a job
        that ended before its attempt, or a hang that the watchdog ended.
        """
        run = self.store.run(state.job.run)
        status = run.status()
        idle = status.state is State.NEW or 0 < status.attempt == state.before
        if status.state is not State.DONE and (
            idle or status.cause in (Cause.KILLED, None)
        ):
            if self.store.full():
                reason = "disk_full: the job could not write its results"
                status = replace(status, cause=Cause.DISK_FULL, reason=reason)
            elif idle:
                # The cause may have passed, as a full disk: `killed` allows another start.
                log = self.backend.start_log(state.handle)
                reason = f"killed: the job ended before its attempt; see {log}"
                status = replace(
                    status, cause=Cause.KILLED, reason=reason, heartbeat=None
                )
        hung = (
            not idle
            and self.watchdog
            and self.watchdog.hung(f"{run.id}/{status.attempt}")
        )
        if not hung or status.state not in (State.INTERRUPTED, State.FAILED):
            return status
        run.attempts()[-1].finish(Cause.HANG, hung, overrule=True)
        return run.status()

    def _settle(self, state: JobState) -> None:
        """Move a job that ended to its next phase: done, failed, or waiting to start again."""
        status = self._final_status(state)
        if status.state is State.RUNNING and state.handle is not None:
            self._adopt(state)  # another sweep's job trains it, or ours is out of reach
            return

        step = (status.heartbeat or {}).get("step", 0)
        if step > state.furthest:
            state.furthest, state.tries = step, 1
        adopted = state.handle is None and not state.own
        exit_reason = (
            "" if state.handle is None else self.backend.exit_reason(state.handle)
        )
        state.slot = state.handle = None

        if status.state is State.DONE:
            counted = self.policy.budget_device_hours is not None
            self.breaker.done(hours(self.store, [state.job.run]) if counted else 0.0)
            self._move(state, Phase.DONE)
        elif self.stopping and status.state is not State.FAILED:
            self._move(state, Phase.STOPPED, status.reason)
        elif exit_reason:
            self._move(state, Phase.FAILED, exit_reason)
        elif (
            self._parent_phase(state.job.parent) is not Phase.DONE and not self.stopping
        ):
            state.tries = 0  # it was queued behind a parent that did not finish
            self._move(state, Phase.WAITING, "its parent has to be done first")
        elif not self.stopping and (parts := self._halved(state.job.run, status)):
            state.tries = 0
            reason = f"{status.reason}; the next attempt computes each batch in {parts} parts"
            self._move(state, Phase.WAITING, reason)
        elif not self.stopping and (adopted or self.policy.again(status, state.tries)):
            state.not_before = self.clock() + self.policy.wait(max(1, state.tries))
            if status.cause is Cause.DISK_FULL:  # the disk is full for every run
                for waiting in self._in(Phase.WAITING):
                    waiting.not_before = max(waiting.not_before, state.not_before)
            self._move(state, Phase.WAITING, status.reason)
        else:
            self.breaker.failed(state.job.run, status)
            self._move(state, Phase.FAILED, status.reason)

    def _halved(self, name: str, status: Status) -> int:
        """After out of GPU memory, double the parts of a batch if the config allows it.

        Return the number of parts; 0 if nothing changed.
        """
        if status.cause is not Cause.OUT_OF_GPU_MEMORY:
            return 0
        run = self.store.run(name)
        if run.record().config["trainer"].get("micro_batches") != "auto":
            return 0
        return run.halve_micro_batches(run.attempt(status.attempt))

    def _stop(self) -> None:
        """Ask this sweep's jobs to save and stop, and wait for them. A second Ctrl-C kills them."""
        self.stopping = True
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(KeyboardInterrupt):
                for state in self._in(Phase.RUNNING):
                    if state.handle is not None:
                        self.backend.signal(state.handle, number)
                while any(
                    state.handle is not None for state in self._in(Phase.RUNNING)
                ):
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
