"""Runs on disk. `Run` reads and writes one run. `RunStore` has all runs of an outputs folder."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from sweeper.store import files
from sweeper.store.attempts import Attempt, Cause, claim_attempt
from sweeper.store.errors import UserError, invalid_value, sanitize
from sweeper.store.identity import INTRODUCED_AS, leaves, matches_hash
from sweeper.store.liveness import POLL_S, Watcher, alive, wait_until_visible
from sweeper.store.metrics import read_metrics
from sweeper.store.records import FILE, RESULT, Record, Result


class State(StrEnum):
    """The state of a run, which `Run.status` derives from the files in its directory."""

    NEW = "new"
    RUNNING = "running"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    DONE = "done"


@dataclass(frozen=True)
class Status:
    """The state of a run and the reason for it.

    Attributes:
        state: the state.
        reason: the reason, for messages.
        attempt: the number of the newest attempt, or 0 if there is none. Once the run is done, the
            number of the attempt that finished it.
        heartbeat: the newest heartbeat of this attempt. None once the run is done.
        cause: why the newest attempt ended without a result. None in all other cases.
        seconds: the duration of the training, once the run is done.
        result: the result, once the run is done.
    """

    state: State
    reason: str
    attempt: int
    heartbeat: dict[str, Any] | None = None
    cause: Cause | None = None
    seconds: float | None = None
    result: Result | None = field(default=None, compare=False, repr=False)


class Taken(NamedTuple):
    """The duration of a run, in seconds.

    Attributes:
        training: the duration of the training steps.
        overhead: the duration of everything else, such as the start and the evaluation.
    """

    training: float
    overhead: float


def running(number: int, heartbeat: dict[str, Any] | None) -> Status:
    """Return the status of a run whose attempt `number` is alive."""
    reason = f"running{_progress(heartbeat)} (attempt {number})"
    return Status(State.RUNNING, reason, number, heartbeat)


def ended(
    number: int, exit_reason: Mapping[str, Any] | None, heartbeat: dict[str, Any] | None
) -> Status:
    """Return the status of a run whose attempt `number` ended without a result.

    `exit_reason` is the content of exit.json, or None if there is no such file.
    """
    state = State.FAILED
    said = exit_reason or {"cause": Cause.KILLED}
    known = said["cause"] in Cause.__members__.values()
    cause = Cause(said["cause"]) if known else Cause.CRASH

    if cause in (Cause.KILLED, Cause.INTERRUPTED):
        state = State.INTERRUPTED
        reason = f"{cause}{_progress(heartbeat)}"
    elif cause is Cause.DONE:
        cause = Cause.NO_RESULT
        reason = "no_result: exit.json says `done`, but there is no result.json"
    else:
        message = str(said.get("message") or "no message").strip()
        reason = f"{sanitize(said['cause'])}: {sanitize(message)}"
    return Status(state, f"{reason} (attempt {number})", number, heartbeat, cause)


def _progress(heartbeat: Mapping[str, Any] | None) -> str:
    if not heartbeat or "step" not in heartbeat:
        return " before its first step"
    of = f" of {sanitize(heartbeat['steps'])}" if "steps" in heartbeat else ""
    return f" at step {sanitize(heartbeat['step'])}{of}"


def lineage(run: Run, number: int) -> list[dict[str, Any]]:
    """Return the content of attempt.json for attempt `number` and for the attempts it continued.

    The oldest attempt comes first, and attempt `number` comes last.
    """
    found: list[dict[str, Any]] = []
    while number:
        info = {"number": number, **run.attempt(number).info()}
        found.insert(0, info)
        before = info.get("continues", 0)
        number = before if 0 < before < number else 0
    return found


_ATTEMPT = re.compile(r"\d{4,9}")
_CHECKPOINT = re.compile(r"step-(\d{1,12})\.ckpt")


class Run:
    """A run on disk, in the directory outputs/runs/<id>."""

    def __init__(self, path: Path, watcher: Watcher | None = None) -> None:
        self.path = path
        self.id = path.name
        self.outputs = path.parent.parent
        self._watcher = watcher or Watcher()

    @staticmethod
    def open(path: Path) -> Run:
        """Return the run in a directory. Raise UserError if the directory holds no run."""
        real = path.resolve()
        run = RunStore(real.parent.parent).run(real.name)
        if run.path != real or not (real / FILE).is_file():
            expected = "a run directory outputs/runs/<id>"
            remedy = "correct the path, or name another outputs folder"
            raise invalid_value("run", path, expected, remedy)
        run.record()
        return run

    def record(self) -> Record:
        """Return the run's record. Raise UserError if it is missing or belongs to another run."""
        record = Record.load(self.path)
        if (
            record is None
            or record.id != self.id
            or not matches_hash(self.id, record.config)
        ):
            expected = f"a directory with the run.json of run {self.id}"
            remedy = "move the directory away and plan the sweep again"
            raise invalid_value("run", self.path, expected, remedy)
        return record

    def result(self) -> Result | None:
        """Return the run's result, or None if the run is not done.

        Raise UserError if the file belongs to another run.
        """
        path = self.path / RESULT
        result = files.load(path, Result)
        if result is not None and result.id != self.id:
            remedy = "move the file away and train the run again"
            raise invalid_value("result", path, f"the result of run {self.id}", remedy)
        return result

    def attempts(self) -> list[Attempt]:
        """Return all attempts, oldest first."""
        folder = self.path / "attempts"
        names = filter(_ATTEMPT.fullmatch, files.entries(folder, folders=True))
        return [self.attempt(number) for number in sorted(map(int, names))]

    def attempt(self, number: int) -> Attempt:
        """Return the attempt with this number."""
        return Attempt(self.path / "attempts" / f"{number:04d}", self._watcher)

    def claim(self, info: Mapping[str, Any]) -> Attempt:
        """Claim a new attempt for this process and write `info` to its attempt.json."""
        self.record()
        return claim_attempt(
            self.path / "attempts", self.attempts(), info, self._watcher
        )

    def micro_batches(self) -> int:
        """Return the number of micro-batches into which the next attempt splits a batch."""
        said = files.read_object(
            self.path / "micro_batches.json", keys=("micro_batches",)
        )
        return int(said["micro_batches"]) if said else 1

    def halve_micro_batches(self, attempt: Attempt) -> int:
        """Make the next attempt use twice as many micro-batches as `attempt`. Return their number.

        Return 0 if each micro-batch of `attempt` already has a single row. A second call for the
        same attempt changes nothing.
        """
        asked = int(attempt.info().get("micro_batches", 1))
        most = (attempt.last_heartbeat() or {}).get("most_parts", 2 * asked)
        parts = min(2 * asked, int(most))
        if parts <= asked:
            return 0
        files.publish_json(self.path / "micro_batches.json", {"micro_batches": parts})
        return parts

    def publish_result(self, attempt: Attempt, result: Mapping[str, Any]) -> bool:
        """Write result.json, which marks the run as done. Return False if it exists already.

        The file exists if another attempt finished first. If that attempt has other metrics, write
        `result` to differs-NNNN.json, which the command `status` reports.
        """
        own = {"format": files.FORMAT, "id": self.id, "attempt": attempt.number}
        value = {**result, **own}
        if files.publish_with_checksum(self.path / RESULT, value):
            return True
        first = wait_until_visible(self.result)
        metrics = files.canonical(result["metrics"])
        if first and files.canonical(first.metrics) != metrics:
            differs = self.path / f"differs-{attempt.number:04d}.json"
            files.publish_with_checksum(differs, value)
        return False

    def begin_anew(self) -> None:
        """Reset the run, so that the next attempt starts from step 0.

        Move the result of a finished run into the folder of its attempt. Delete all checkpoints. A
        finished run still has checkpoints if it was killed before it could delete them.
        """
        for path in self.checkpoints():
            path.unlink(missing_ok=True)
        result = self.result()
        if result is None:
            return
        folder = self.attempt(result.attempt).path
        # Move result.json last, so that the run counts as done until all files are moved.
        for name in (*self._differing(), RESULT):
            (self.path / name).rename(folder / name)

    def _differing(self) -> list[str]:
        """Return the names of the differs-NNNN.json files, which `publish_result` writes."""
        return sorted(
            name for name in files.entries(self.path) if name.startswith("differs-")
        )

    def status(self) -> Status:
        """Return the status of the run. If one of its files is unreadable, the run is `failed`."""
        try:
            if done := self._done():
                return done
            attempts = self.attempts()
            if not attempts:
                return Status(State.NEW, "no attempt yet", 0)
            # An older attempt may still be alive if its process was suspended for longer than
            # LEASE_SECONDS. Check every attempt now, so that the watcher begins to observe all of
            # them.
            known = [
                (attempt, attempt.last_heartbeat()) for attempt in reversed(attempts)
            ]
            if living := [pair for pair in known if pair[0].alive(pair[1])]:
                attempt, heartbeat = living[0]
                return running(attempt.number, heartbeat)
            # Read the result again, since the process may have written it after the first read.
            newest = attempts[-1]
            return self._done() or ended(
                newest.number, newest.exit(), newest.last_heartbeat()
            )
        except (UserError, OSError) as error:
            return Status(State.FAILED, sanitize(error), 0)

    def history(self) -> list[dict[str, Any]]:
        """Return one row of metrics for each logged step, in order of steps.

        The last rows are those of the attempt that finished the run, or of the newest attempt if
        the run is not done. The earlier rows are those of the attempts that this attempt continued,
        each up to the step at which the next attempt resumed. If two attempts logged a metric at
        the same step, the row has the newer value.
        """
        result, attempts = self.result(), self.attempts()
        newest = attempts[-1].number if attempts else 0
        number = result.attempt if result else newest

        rows: dict[int, dict[str, Any]] = {}
        for info in lineage(self, number):
            resumed = info.get("resumed_from", 0)
            rows = {step: row for step, row in rows.items() if step <= resumed}
            for row in read_metrics(self.attempt(info["number"]).metrics_path):
                rows.setdefault(row["step"], {}).update(row)
        return [rows[step] for step in sorted(rows)]

    def checkpoints(self) -> list[Path]:
        """Return the paths of all checkpoints, from the highest step to the lowest.

        Among checkpoints of the same step, the newest attempt comes first. The files may be
        damaged.
        """
        found = [
            (int(name[1]), attempt.number, path)
            for attempt in self.attempts()
            for path in attempt.checkpoint_files()
            if (name := _CHECKPOINT.fullmatch(path.name))
        ]
        return [path for _, _, path in sorted(found, reverse=True)]

    def _done(self) -> Status | None:
        result = self.result()
        if result is None:
            return None
        step = "?" if result.steps is None else result.steps
        reason = f"finished at step {step} (attempt {result.attempt})"
        if differing := self._differing():
            names = sanitize(", ".join(differing))
            reason += f"; a later attempt had different metrics: {names}"
        return Status(
            State.DONE, reason, result.attempt, seconds=result.seconds, result=result
        )


@dataclass(frozen=True)
class RunStore:
    """All runs of an outputs folder."""

    outputs: Path
    _watcher: Watcher = field(default_factory=Watcher)

    def check_writable(self) -> None:
        """Raise UserError if files cannot be written to the outputs folder."""
        files.check_writable(self.outputs)

    def full(self) -> bool:
        """Return whether the disk or the user's quota is full."""
        try:
            files.check_writable(self.outputs)
        except UserError as error:
            return (
                isinstance(error.__cause__, OSError)
                and error.__cause__.errno in files.FULL
            )
        return False

    def run(self, run_id: str) -> Run:
        """Return the run with this id, which need not exist. Raise UserError for an unsafe id."""
        return Run(files.child(self.outputs / "runs", run_id), self._watcher)

    def in_training(self, ids: Iterable[str]) -> str | None:
        """Return the id of one of these runs that a process is training, or None if there is none.

        If the process may be on another machine, wait up to LEASE_SECONDS for a new heartbeat.
        """
        now = first = {id: self.run(id).status() for id in ids}
        while now := {id: one for id, one in now.items() if one.state is State.RUNNING}:
            for id, status in now.items():
                before = first[id].attempt, first[id].heartbeat
                changed = (status.attempt, status.heartbeat) != before
                if changed or alive(self.run(id).attempt(status.attempt).info()):
                    return id
            time.sleep(POLL_S)
            now = {id: self.run(id).status() for id in now}
        return None

    def ids(self) -> list[str]:
        """Return the sorted ids of all runs that have a record."""
        folder = self.outputs / "runs"
        names = files.entries(folder, folders=True)
        return sorted(name for name in names if (folder / name / FILE).is_file())

    def freeze(self, record: Record) -> Run:
        """Write the record of a run. If the run has a record and is not done, update its config.

        The update changes only keys that cannot change a result, because the id contains a hash of
        all other keys.
        """
        run = self.run(record.id)
        if not (run.path / FILE).is_file():
            # make_directory checks whether its argument is a symbolic link, but does not check the
            # parents. So call it for both folders.
            files.make_directory(run.path.parent)
            files.make_directory(run.path)
            if record.save(run.path, replace=False):
                return run

        wait_until_visible(lambda: (run.path / FILE).is_file() or None)
        known, config = run.record(), json.loads(files.canonical(record.config))
        # As in run ids, 1 equals 1.0, and a missing key stands for its value in INTRODUCED_AS.
        old, new = (INTRODUCED_AS | leaves(one) for one in (known.config, config))
        if old != new and not (run.path / RESULT).is_file():
            replace(known, config=config).save(run.path, replace=True)
        return run
