"""The schedule of a sweep. It starts the jobs, parents first, and reacts when a job ends.

A job trains one run, whose record is on disk already. The backend decides where the job executes:
on this machine, in Slurm or in Ray. `Phase` lists the phases of a run, such as done or failed.

This file is stop 4 of the road through the code in CONTRIBUTING.md. Next read
tasks/training/job.py, the code that a job executes.
"""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from typing import Any

from sweeper.run.backend import Backend, Job
from sweeper.run.failures import Breaker, Watchdog, hours
from sweeper.run.options import SweepOptions
from sweeper.store.attempts import Cause
from sweeper.store.liveness import send
from sweeper.store.runs import RunStore, State, Status, running

POLL_S = 0.5  # seconds between two checks for ended jobs, and between two updates of the display
# If more runs than this are running, poll each run less often. This spares the file server.
MANY = 15


class Phase(StrEnum):
    """The phase of a run in this sweep."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    BLOCKED = "blocked"  # its parent failed or is blocked
    # Ctrl-C or SIGTERM stopped the run. Repeating the command continues it.
    STOPPED = "stopped"


@dataclass
class JobState:
    """The state of a run in this sweep.

    Attributes:
        job: the run, as a job to schedule.
        phase: its phase.
        slot: the slot that the run takes up. None if it is unknown, or while the run does not
            execute.
        handle: the backend's handle of the job. None while another sweep's process trains the run.
        own: whether this sweep has ever started the run.
        before: the number of the newest attempt when this sweep last started the run, or 0 if there
            was none. If no newer attempt exists when the job ends, the job began no attempt.
        tries: the number of starts since an attempt last reached a new highest step.
        furthest: the highest step that any attempt had reached when it ended.
        not_before: the earliest time of the next start.
        reason: why the run is in this phase, for messages.
        status: the status at the last poll. None while the run does not execute.
    """

    job: Job
    phase: Phase = Phase.WAITING
    slot: int | None = None
    handle: Any = None
    own: bool = False
    before: int = 0
    tries: int = 0
    furthest: int = 0
    not_before: float = 0.0
    reason: str = ""
    status: Status | None = None

    @property
    def heartbeat(self) -> Mapping[str, Any]:
        """The newest heartbeat that was read, or {} if there is none."""
        return (self.status and self.status.heartbeat) or {}


def counts(states: Mapping[str, JobState]) -> Counter[Phase]:
    """Return the number of runs in each phase."""
    return Counter(state.phase for state in states.values())


@dataclass
class StatusPoller:
    """A reader of run statuses that limits how often it reads files.

    Attributes:
        store: the store of the runs.
        interval_s: the shortest time between two polls of a run, in seconds.
    """

    store: RunStore
    interval_s: float
    _due: float = 0.0

    def __post_init__(self) -> None:
        self._run = cache(self.store.run)

    def poll(self, states: Sequence[JobState]) -> bool:
        """Update the status of each run in `states` and return True.

        If the last update was too recent (see `interval_s`), do nothing and return False.
        """
        now = time.monotonic()
        if now < self._due:
            return False
        self._due = now + self.interval_s * max(1.0, len(states) / MANY)
        for state in states:
            run, known = self._run(state.job.run), state.status
            heartbeat = None
            if known and known.state is State.RUNNING:
                heartbeat = run.attempt(known.attempt).last_heartbeat()
            if known and heartbeat and heartbeat != known.heartbeat:
                state.status = running(known.attempt, heartbeat)
            else:
                state.status = run.status()
        return True


@dataclass
class Schedule:
    """The schedule of a sweep, which executes jobs on a backend.

    Attributes:
        store: the store of the runs.
        backend: the backend that executes the jobs.
        jobs: the jobs to execute, in any order.
        policy: the options of the sweep.
        changed: a callback with two arguments, the schedule and a job that changed its phase. The
            schedule also calls it every POLL_S seconds, with None instead of a job.
        check_for_stop: a callback without arguments. The schedule calls it every POLL_S seconds. It
            raises KeyboardInterrupt to stop the sweep.
        clock: a function that returns the time in seconds.
        spent_h: the device hours of earlier runs, which count against the budget.
        states: the state of each job, by run.
        poller: the reader of run statuses.
        breaker: the circuit breaker, which can prevent further starts.
        watchdog: the watchdog for hanging jobs. None if the options disable it.
        stopping: whether the sweep is being stopped.
    """

    store: RunStore
    backend: Backend
    jobs: Sequence[Job]
    policy: SweepOptions
    changed: Callable[[Schedule, JobState | None], None] = lambda schedule, state: None
    check_for_stop: Callable[[], None] = lambda: None
    clock: Callable[[], float] = time.monotonic
    spent_h: float = 0.0
    states: dict[str, JobState] = field(init=False)
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
        # Keep the parents that are done but not part of the schedule. The parent None is "done",
        # so that runs without a parent may start.
        outside = {job.parent for job in ordered if job.parent not in self.states}
        self._done = {run for run in outside if run is None or self._is_done(run)}

    def execute(self) -> bool:
        """Run all jobs. Return whether all runs are done.

        Raises:
            KeyboardInterrupt: the user pressed Ctrl-C, and the running jobs have saved and stopped.
                A second Ctrl-C kills them.
        """
        try:
            while self._start_jobs() or self._in(Phase.RUNNING):
                self._collect_ended()
        except KeyboardInterrupt:
            self._stop()
            raise
        return all(state.phase is Phase.DONE for state in self.states.values())

    def _start_jobs(self) -> bool:
        """Start jobs until no slot is free. Return whether jobs are waiting that may start later.

        Read the state of a waiting run only if there is a slot for it. If the breaker has tripped,
        start no job and return False.
        """
        if self.breaker.tripped:
            return False
        full = False
        for state in self._startable():
            slot = None if full else self.backend.grant(state.job, self._free())
            if slot is None:
                full = True
                continue
            before = self.store.run(state.job.run).status().state
            if before is State.DONE:
                self._move(state, Phase.DONE)
            elif before is State.RUNNING:
                self._adopt(state)
            else:
                self._start(state, slot)
        return bool(self._in(Phase.WAITING))

    def _start(self, state: JobState, slot: int) -> None:
        run = self.store.run(state.job.run)
        earlier = run.attempts()
        state.before = earlier[-1].number if earlier else 0
        state.tries, state.slot, state.own = state.tries + 1, slot, True
        state.handle = self.backend.start(run.path, slot)
        self._move(state, Phase.RUNNING)

    def _startable(self) -> Iterator[JobState]:
        """Yield the jobs that may start now. Mark a job as blocked if its parent failed."""
        for state in self._in(Phase.WAITING):
            parent = self._parent_phase(state.job.parent)
            if parent in (Phase.FAILED, Phase.BLOCKED):
                verb = "failed" if parent is Phase.FAILED else "is blocked"
                self._move(
                    state, Phase.BLOCKED, f"its parent {state.job.parent} {verb}"
                )
            elif parent is Phase.DONE and self.clock() >= state.not_before:
                yield state

    def _free(self) -> list[int]:
        """Return the slots in which jobs can start.

        A run that another sweep trains may take up an unknown slot. For each such run, leave out
        one free slot.
        """
        running = self._in(Phase.RUNNING)
        taken = {state.slot for state in running}
        adopted = sum(state.slot is None for state in running)
        free = [slot for slot in range(self.backend.slots) if slot not in taken]
        return free[: max(0, len(free) - adopted)]

    def _adopt(self, state: JobState) -> None:
        """Track a run that another sweep trains. If a free slot has the run's GPUs, reserve it."""
        run = self.store.run(state.job.run)
        gpus = run.attempt(run.status().attempt).info().get("visible_gpus")
        taken = {other.slot for other in self._in(Phase.RUNNING) if other is not state}
        free = (slot for slot in range(self.backend.slots) if slot not in taken)
        same = (slot for slot in free if gpus and self.backend.devices(slot) == gpus)
        state.slot, state.handle, state.before = next(same, None), None, 0
        self._move(state, Phase.RUNNING, "another sweep is training this run")

    def _collect_ended(self) -> None:
        """Handle jobs that ended or hang. Raise KeyboardInterrupt if the sweep has to stop."""
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
                elif status and state.handle is None:
                    # Another sweep started this run, so the backend does not report its end.
                    self._settle(state)

        self.changed(self, None)
        self.check_for_stop()

    def _signal_if_hung(self, state: JobState, status: Status) -> None:
        """If a run hangs, send it the signal that the watchdog chooses."""
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

        If the process wrote no cause, infer the cause: the disk is full, the job ended during its
        start, or the watchdog killed the job.
        """
        run = self.store.run(state.job.run)
        status = run.status()
        if status.state is State.DONE:
            return status
        idle = status.state is State.NEW or 0 < status.attempt == state.before
        unexplained = idle or status.cause in (Cause.KILLED, None)

        if unexplained and self.store.full():
            reason = (
                "disk_full: the job could not write its results; free some disk space"
            )
            status = replace(status, cause=Cause.DISK_FULL, reason=reason)
        elif idle:
            # The cause is unknown and may not recur. KILLED allows a restart.
            log = self.backend.start_log(state.handle)
            reason = (
                f"killed: the job ended while it was starting; its output is in {log}"
            )
            status = replace(status, cause=Cause.KILLED, reason=reason, heartbeat=None)

        if idle or not self.watchdog:
            return status
        hung = self.watchdog.hung(f"{run.id}/{status.attempt}")
        if not hung or status.state not in (State.INTERRUPTED, State.FAILED):
            return status
        run.attempt(status.attempt).finish(Cause.HANG, hung, overrule=True)
        return run.status()

    def _settle(self, state: JobState) -> None:
        """Move a job that ended to its next phase: done, failed, stopped, or waiting to restart."""
        status = self._final_status(state)
        if status.state is State.RUNNING:
            # The run is alive: another sweep trains it, or the backend has lost this sweep's job.
            if state.handle is not None:
                self._adopt(state)
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
        elif self.stopping:
            failed = status.state is State.FAILED
            phase = Phase.FAILED if failed else Phase.STOPPED
            self._move(state, phase, status.reason)
        elif exit_reason:
            self._move(state, Phase.FAILED, exit_reason)
        elif parts := self._halved(state.job.run, status):
            state.tries = 0
            reason = f"{status.reason}; the next attempt uses {parts} micro-batches"
            self._move(state, Phase.WAITING, reason)
        elif adopted or self.policy.again(status, state.tries):
            state.not_before = self.clock() + self.policy.wait(max(1, state.tries))
            if status.cause is Cause.DISK_FULL:
                # The disk is full for every run, so delay the other waiting runs, too.
                for waiting in self._in(Phase.WAITING):
                    waiting.not_before = max(waiting.not_before, state.not_before)
            self._move(state, Phase.WAITING, status.reason)
        else:
            self.breaker.failed(state.job.run, status)
            self._move(state, Phase.FAILED, status.reason)

    def _halved(self, name: str, status: Status) -> int:
        """Halve the size of a run's micro-batches if it ran out of GPU memory.

        Do so only with `trainer.micro_batches=auto`. Return the new number of micro-batches, or 0
        if it is unchanged.
        """
        if status.cause is not Cause.OUT_OF_GPU_MEMORY:
            return 0
        run = self.store.run(name)
        if run.record().config["trainer"].get("micro_batches") != "auto":
            return 0
        return run.halve_micro_batches(run.attempt(status.attempt))

    def _stop(self) -> None:
        """Ask this sweep's jobs to save and stop, and wait for them. Another Ctrl-C kills them."""
        self.stopping = True
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(KeyboardInterrupt):
                for state in self._with_jobs():
                    self.backend.signal(state.handle, number)
                while self._with_jobs():
                    self._collect_ended()
                return

    def _with_jobs(self) -> list[JobState]:
        """Return the states of the running jobs that this sweep has started."""
        return [state for state in self._in(Phase.RUNNING) if state.handle is not None]

    def _parent_phase(self, parent: str | None) -> Phase:
        if parent in self.states:
            return self.states[parent].phase
        return Phase.DONE if parent in self._done else Phase.FAILED

    def _is_done(self, run: str) -> bool:
        return self.store.run(run).status().state is State.DONE

    def _in(self, phase: Phase) -> list[JobState]:
        return [state for state in self.states.values() if state.phase is phase]

    def _move(self, state: JobState, phase: Phase, reason: str = "") -> None:
        state.phase, state.reason, state.status = phase, reason, None
        self.changed(self, state)
