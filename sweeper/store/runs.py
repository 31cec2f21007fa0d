"""The states of a run, and the words that say why it is in one."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from sweeper.store.archives.archive import archived, find
from sweeper.store.archives.reading import entries, mount, present
from sweeper.store.attempts import Attempt, Cause, claim_attempt, find_attempts
from sweeper.store.errors import UserError, invalid_value, sanitize
from sweeper.store.files import (
    CHECKSUM,
    FORMAT,
    FULL,
    canonical,
    check_writable,
    child,
    make_directory,
    publish_json,
    publish_with_checksum,
    read_object,
    read_versioned,
    with_checksum,
)
from sweeper.store.identity import as_introduced, leaves, named_by
from sweeper.store.liveness import Watcher, wait_until_visible
from sweeper.store.metrics import read_metrics
from sweeper.store.validate import NUMBER


class State(StrEnum):
    """Where a run stands; derived from its directory, never stored."""

    NEW = "new"
    RUNNING = "running"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    DONE = "done"


@dataclass(frozen=True)
class Status:
    """The state of a run, the reason in words, its newest attempt (0: none), the heartbeat of that
    and why it ended.

    Of a done run: the attempt that finished, no heartbeat, and the seconds it trained.
    """

    state: State
    reason: str
    attempt: int
    heartbeat: dict[str, Any] | None = None
    cause: Cause | None = None
    seconds: float | None = None


class Taken(NamedTuple):
    """Seconds of a run: in training steps, and of a process that trains it beside them."""

    training: float
    beside: float


def running(number: int, heartbeat: dict[str, Any] | None) -> Status:
    """The status while attempt `number` lives."""
    return Status(
        State.RUNNING, f"running{_progress(heartbeat)} (attempt {number})", number, heartbeat
    )


def ended(
    number: int, exit_reason: Mapping[str, Any] | None, heartbeat: dict[str, Any] | None
) -> Status:
    """The status after attempt `number` ended without a result; `exit_reason` is its exit."""
    state, cause = State.FAILED, _cause(exit_reason)
    if exit_reason is None:
        state, what = State.INTERRUPTED, f"dead without a word{_progress(heartbeat)}"
    elif cause is Cause.INTERRUPTED:
        state, what = State.INTERRUPTED, f"interrupted{_progress(heartbeat)}"
    elif cause is Cause.NO_RESULT:
        what = "no_result: it says that it finished, but published no result"
    else:
        message = str(exit_reason.get("message") or "no message").strip()
        what = f"{sanitize(exit_reason['cause'])}: {sanitize(message)}"
    return Status(state, f"{what} (attempt {number})", number, heartbeat, cause)


def _cause(exit_reason: Mapping[str, Any] | None) -> Cause:
    if exit_reason is None:
        return Cause.KILLED
    if exit_reason["cause"] == Cause.DONE:
        return Cause.NO_RESULT
    known = exit_reason["cause"] in Cause.__members__.values()
    return Cause(exit_reason["cause"]) if known else Cause.CRASH


def _progress(heartbeat: Mapping[str, Any] | None) -> str:
    if not heartbeat or "step" not in heartbeat:
        return " before its first step"
    of = f" of {sanitize(heartbeat['steps'])}" if "steps" in heartbeat else ""
    return f" at step {sanitize(heartbeat['step'])}{of}"


def merged_rows(attempts: Sequence[Attempt]) -> list[dict[str, Any]]:
    """One row per step, in order, from attempts given oldest first.

    The last attempt counts from the step it resumed at: what earlier ones did beyond that is
    superseded. Steps up to there come from the earlier attempts, where a later one wins.
    """
    if not attempts:
        return []
    *earlier, last = attempts
    limit = int(last.info().get("resumed_from", 0))
    merged = _by_step(last)
    for attempt in reversed(earlier):
        for step, row in _by_step(attempt).items():
            if step <= limit:
                merged[step] = row | merged.get(step, {})
    return [merged[step] for step in sorted(merged)]


def lineage(run: Run, number: int) -> list[dict[str, Any]]:
    """What the attempts say that the work of one came of, oldest first, itself last.

    What an earlier version of the program left does not say which attempt it continues.
    """
    found: list[dict[str, Any]] = []
    while number:
        info = run.attempt(number).info()
        found.insert(0, info)
        before = info.get("continues", 0)
        number = before if 0 < before < number else 0
    return found


def _by_step(attempt: Attempt) -> dict[int, dict[str, Any]]:
    """The rows of one attempt; several rows of one step, as training and validation write, join."""
    joined: dict[int, dict[str, Any]] = {}
    for row in read_metrics(attempt.metrics_path)[0]:
        joined.setdefault(row["step"], {}).update(row)
    return joined


__all__ = ["Attempt", "Cause", "Run", "RunStore", "State", "Status"]

_CHECKPOINT = re.compile(r"step-(\d{1,12})\.ckpt")

_SOME = (*NUMBER, None)
_RESULT = {
    **dict.fromkeys(("steps", "tokens_seen", "seconds", "tokens_per_second"), _SOME),
    **{key: int for key in ("attempt", "max_memory_allocated", "micro_batches")},
    "metrics": {str: _SOME},
    "validation": {str: _SOME},
}


class Run:
    """A run directory: outputs/runs/<id>."""

    def __init__(self, path: Path, watcher: Watcher | None = None) -> None:
        self.path = path
        self.id = path.name
        self.outputs = path.parent.parent
        self._watcher = watcher or Watcher()

    @classmethod
    def open(cls, path: Path) -> Run:
        """The run in a directory that a person named; UserError if there is none."""
        real = path.resolve()
        if real.parent.name != "runs" or not (real / "run.json").is_file():
            raise invalid_value(
                "run", path, "a run directory outputs/runs/<id>", "give the path of one"
            )
        run = cls(real)
        run.record()
        return run

    def record(self) -> dict[str, Any]:
        """What run.json says: id, config, size, names."""
        record = read_versioned(self.path / "run.json", keys=("id", "config"))
        if record is None or record["id"] != self.id:
            holds = "no run.json" if record is None else f"run {sanitize(record['id'])}"
            expected = f"the directory of run {self.id}, but it holds {holds}"
            raise invalid_value("run", self.path, expected, "plan the sweep again")
        if not named_by(self.id, record["config"]):
            expected = "the config that the run is named by, but another stands in its run.json"
            raise invalid_value("run", self.path, expected, "move it away and plan the sweep again")
        return record

    def result(self) -> dict[str, Any] | None:
        """What result.json says; None if the run is not done.

        UserError unless it is what an attempt at this very run has published.
        """
        path = self.path / "result.json"
        result = read_versioned(path, keys=("id", "attempt", "metrics", CHECKSUM), shape=_RESULT)
        if result is not None and result["id"] != self.id:
            expected = (
                f"the result of run {self.id}, but it is that of run {sanitize(result['id'])}"
            )
            raise invalid_value("result", path, expected, "move it away and train the run again")
        return result

    def attempts(self) -> list[Attempt]:
        """All attempts, oldest first."""
        return find_attempts(self.path / "attempts", self._watcher)

    def attempt(self, number: int) -> Attempt:
        """The attempt with this number."""
        return Attempt(self.path / "attempts" / f"{number:04d}", self._watcher)

    def claim(self, info: Mapping[str, Any]) -> Attempt:
        """A new attempt that belongs to this process; `info` goes into its attempt.json."""
        self.record()
        return claim_attempt(self.path / "attempts", info, self._watcher)

    def micro_batches(self) -> int:
        """The parts in which the next attempt is to work off the rows of each batch."""
        said = read_object(self.path / "micro_batches.json", keys=("micro_batches",))
        return int(said["micro_batches"]) if said else 1

    def halve_micro_batches(self, attempt: Attempt) -> int:
        """Have the next attempt take half the rows at a time that this one took; in how many
        parts. Said twice of one attempt, it is the same."""
        parts = 2 * int(attempt.info().get("micro_batches", 1))
        publish_json(self.path / "micro_batches.json", {"micro_batches": parts})
        return parts

    def publish_result(self, attempt: Attempt, result: Mapping[str, Any]) -> bool:
        """Makes the run done with this result; False if another attempt was first.

        A second finisher with other metrics is kept as differs-NNNN.json and told in the status.
        """
        metrics = canonical(result["metrics"])
        fixed = {"format": FORMAT, "id": self.id, "attempt": attempt.number}
        value = {**fixed, **result, **fixed}
        if publish_with_checksum(self.path / "result.json", value):
            return True
        first = wait_until_visible(self.result)
        if first is not None and canonical(first["metrics"]) != metrics:
            publish_with_checksum(self.path / f"differs-{attempt.number:04d}.json", value)
        return False

    def status(self) -> Status:
        """The state of the run; a file that cannot be read makes it failed, and is the reason."""
        try:
            return self._done() or self._unfinished()
        except (UserError, OSError) as error:
            return Status(State.FAILED, sanitize(error), 0)

    def history(self) -> list[dict[str, Any]]:
        """The rows of all attempts as of one undisturbed run: each step once, in order."""
        result = self.result()
        attempts = self.attempts()
        if result is not None:  # an attempt claimed after the winning one has no part in the result
            attempts = [attempt for attempt in attempts if attempt.number <= result["attempt"]]
        return merged_rows(attempts)

    def checkpoints(self) -> list[Path]:
        """The checkpoints of all attempts, highest step first, newest attempt first; unverified."""
        found = []
        for attempt in self.attempts():
            for path in attempt.checkpoint_files("step-*.ckpt"):
                name = _CHECKPOINT.fullmatch(path.name)
                if name:
                    found.append((int(name[1]), attempt.number, path))
        return [path for _, _, path in sorted(found, reverse=True)]

    def _done(self) -> Status | None:
        result = self.result()
        if result is None:
            return None
        reason = (
            f"finished at step {sanitize(result.get('steps', '?'))} (attempt {result['attempt']})"
        )
        differing = sorted(name for name in entries(self.path) if name.startswith("differs-"))
        if differing:
            reason += f"; a later attempt got other metrics: {sanitize(', '.join(differing))}"
        return Status(State.DONE, reason, result["attempt"], seconds=result.get("seconds"))

    def _unfinished(self) -> Status:
        attempts = self.attempts()
        if not attempts:
            return Status(State.NEW, "no attempt yet", 0)
        # Any may live, not only the newest: one stopped for longer than its lease may come back.
        for attempt in reversed(attempts):
            heartbeat = attempt.last_heartbeat()
            if attempt.alive(heartbeat):
                return running(attempt.number, heartbeat)
        newest = attempts[-1]  # read again: whoever sees the process ended sees all it wrote before
        return self._done() or ended(newest.number, newest.exit(), newest.last_heartbeat())


class RunStore:
    """All runs below one outputs folder. Reading makes no folder and writes nothing."""

    def __init__(self, outputs: Path, watcher: Watcher | None = None) -> None:
        self.outputs = outputs
        self._root = outputs / "runs"
        self._watcher = watcher or Watcher()

    def check_writable(self) -> None:
        """UserError unless everything the store does can be done in the outputs folder."""
        check_writable(self.outputs)

    def full(self) -> bool:
        """Whether nothing can be written for want of space."""
        try:
            check_writable(self.outputs)
        except UserError as error:
            return isinstance(error.__cause__, OSError) and error.__cause__.errno in FULL
        return False

    def run(self, run_id: str) -> Run:
        """The run with this id, there or not; UserError if the id is no plain name."""
        mount(path := child(self._root, run_id), lambda: find(self.outputs, run_id))
        return Run(path, self._watcher)

    def ids(self) -> list[str]:
        """The ids of all frozen runs, sorted."""
        names = entries(self._root, folders=True)
        lying = {name for name in names if present(self._root / name / "run.json")}
        return sorted(lying | archived(self.outputs))

    def freeze(self, record: Mapping[str, Any], *, apart_from: Collection[str] = ()) -> Run:
        """Writes the record of a run, once.

        UserError if the one there has another config. `apart_from` names the keys (dotted; a key
        stands for all below it) in which the two may differ since they cannot change a result:
        until the run is done, its next attempt takes them as they are given now.
        """
        run = self.run(record["id"])
        path = run.path / "run.json"
        if not present(path):
            make_directory(run.path)
            if publish_with_checksum(path, {"format": FORMAT, **record}):
                return run
        wait_until_visible(lambda: present(path) or None)
        there, given = run.record(), json.loads(canonical(record["config"]))
        differing = _differing(there["config"], given)
        for key in differing:
            if not any(key == name or key.startswith(f"{name}.") for name in apart_from):
                raise UserError(
                    f"run {run.id}: its record on disk has another {sanitize(key)} than the one "
                    f"planned now; move {sanitize(run.path)} away or choose another outputs folder."
                )
        if differing and not present(run.path / "result.json"):
            publish_json(path, with_checksum({**there, "config": given}))
        return run


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """The dotted keys in which two configs differ; 1 and 1.0 are the same, as they are in ids, and
    a key that is absent, or as it was when it came."""
    first, second = dict(leaves(one)), dict(leaves(other))
    absent = object()
    return sorted(
        key
        for key in first.keys() | second.keys()
        if first.get(key, absent) != second.get(key, absent)
        and not all(as_introduced(key, one[key]) for one in (first, second) if key in one)
    )
