"""A run on disk: its record, its attempts, its one result, and the state these add up to."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from sweeper.store.archives.archive import archived, find
from sweeper.store.archives.reading import entries, mount, present
from sweeper.store.attempts import Attempt, Cause, claim_attempt, find_attempts
from sweeper.store.check_writable import FULL, check_writable
from sweeper.store.errors import UserError, shown, wrong
from sweeper.store.files import (
    FORMAT,
    SEAL,
    canonical,
    child,
    make_directory,
    publish_json,
    publish_sealed,
    read_object,
    read_versioned,
    sealed,
)
from sweeper.store.history import merged_rows
from sweeper.store.identity import as_introduced, leaves, named_by
from sweeper.store.liveness import Watcher
from sweeper.store.shape import NUMBER
from sweeper.store.sharing.sight import once_seen
from sweeper.store.states import State, Status, ended, running

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
            raise wrong("run", path, "a run directory outputs/runs/<id>", "give the path of one")
        run = cls(real)
        run.record()
        return run

    def record(self) -> dict[str, Any]:
        """What run.json says: id, config, size, names."""
        record = read_versioned(self.path / "run.json", keys=("id", "config"))
        if record is None or record["id"] != self.id:
            holds = "no run.json" if record is None else f"run {shown(record['id'])}"
            expected = f"the directory of run {self.id}, but it holds {holds}"
            raise wrong("run", self.path, expected, "plan the sweep again")
        if not named_by(self.id, record["config"]):
            expected = "the config that the run is named by, but another stands in its run.json"
            raise wrong("run", self.path, expected, "move it away and plan the sweep again")
        return record

    def result(self) -> dict[str, Any] | None:
        """What result.json says; None if the run is not done.

        UserError unless it is what an attempt at this very run has published.
        """
        path = self.path / "result.json"
        result = read_versioned(path, keys=("id", "attempt", "metrics", SEAL), shape=_RESULT)
        if result is not None and result["id"] != self.id:
            expected = f"the result of run {self.id}, but it is that of run {shown(result['id'])}"
            raise wrong("result", path, expected, "move it away and train the run again")
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
        if publish_sealed(self.path / "result.json", value):
            return True
        first = once_seen(self.result)
        if first is not None and canonical(first["metrics"]) != metrics:
            publish_sealed(self.path / f"differs-{attempt.number:04d}.json", value)
        return False

    def status(self) -> Status:
        """The state of the run; a file that cannot be read makes it failed, and is the reason."""
        try:
            return self._done() or self._unfinished()
        except (UserError, OSError) as error:
            return Status(State.FAILED, shown(error), 0)

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
        reason = f"finished at step {shown(result.get('steps', '?'))} (attempt {result['attempt']})"
        differing = sorted(name for name in entries(self.path) if name.startswith("differs-"))
        if differing:
            reason += f"; a later attempt got other metrics: {shown(', '.join(differing))}"
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
            if publish_sealed(path, {"format": FORMAT, **record}):
                return run
        once_seen(lambda: present(path) or None)
        there, given = run.record(), json.loads(canonical(record["config"]))
        differing = _differing(there["config"], given)
        for key in differing:
            if not any(key == name or key.startswith(f"{name}.") for name in apart_from):
                raise UserError(
                    f"run {run.id}: its record on disk has another {shown(key)} than the one "
                    f"planned now; move {shown(run.path)} away or choose another outputs folder."
                )
        if differing and not present(run.path / "result.json"):
            publish_json(path, sealed({**there, "config": given}))
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
