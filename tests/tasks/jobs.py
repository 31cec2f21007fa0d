"""A small training run, and functions that run it in a forked process and disturb it."""

import copy
import functools
import itertools
import os
import signal
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from sweeper.store.attempts import Attempt, Cause
from sweeper.store.plans import write_plan
from sweeper.store.records import Record
from sweeper.store.runs import Run, RunStore
from tasks import train
from tasks.size_server.fork import become_job
from tests.policies import shipped

# Sizes are different primes where possible, so that a test fails if two sizes are swapped.
SETTINGS = """
scale=paper logger=none seed=3 data.sentences=1009 data.competitors=7 data.directions=23
trainer.steps=19 trainer.precision=32-true trainer.accelerator=cpu
trainer.log_every=5 trainer.validate_every=7 trainer.checkpoint_every=4
"""
LM1B = """
task.vocabulary_size=307 task.tokenizer_lines=500 task.sequence_length=31 task.batch_tokens=93
model.layers=2 model.embedding_size=17 model.heads=3 model.head_size=5 model.feedforward_size=23
optimizer.learning_rate=0.02 optimizer.warmup_steps=5 optimizer.gradient_clip=1.0
"""

Changes = Mapping[str, Any]
"""New values by dotted key. The value `...` removes the key."""


@functools.cache
def composed(typed: str) -> dict[str, Any]:
    """Compose the config of conf/ with SETTINGS and the overrides `typed`. Do not change it."""
    return shipped().base([*SETTINGS.split(), *typed.split()]).run({})


def config(changes: Changes = {}) -> dict[str, Any]:  # noqa: B006 (never changed)
    """Return a copy of the small config with these changes."""
    tree = copy.deepcopy(composed(LM1B))
    for key, value in changes.items():
        *path, last = key.split(".")
        section = tree
        for name in path:
            section = section[name]
        if value is ...:
            del section[last]
        else:
            section[last] = copy.deepcopy(value)
    return tree


def freeze(outputs: Path, changes: Changes = {}, name: str = "small") -> Run:  # noqa: B006
    """Write the record of a small run with these changes, and return the run."""
    names = {"experiment": "none", "arm": "none", "label": name}
    return RunStore(outputs).freeze(Record(name, config(changes), names=names))


def run_job(run: Run, sabotage: Callable[[], None] = lambda: None) -> int:
    """Fork a process that calls `sabotage` and then trains the run. Return its exit code.

    The exit code of a process that signal N killed is -N.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        # Python >= 3.12 warns if libraries have left threads running.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:

        def work() -> int:
            # pytest has replaced both streams, and would capture the output of the job.
            sys.stdout, sys.stderr = (
                os.fdopen(number, "w", closefd=False) for number in (1, 2)
            )
            sabotage()
            return train.main(str(run.path))

        become_job(work, log=str(run.outputs / "terminal.txt"))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def ended(
    outputs: Path,
    changes: Changes = {},  # noqa: B006
    name: str = "small",
    *,
    sabotage: Callable[[], None] = lambda: None,
    code: int = 0,
) -> Run:
    """Train a small run, assert that its job exits with `code`, and return the run."""
    run = freeze(outputs, changes, name)
    assert run_job(run, sabotage) == code, run.status()
    return run


def kill_self() -> None:
    """Kill this process without a chance to clean up."""
    os.kill(os.getpid(), signal.SIGKILL)


def terminate_self() -> None:
    """Send SIGTERM to this process."""
    os.kill(os.getpid(), signal.SIGTERM)


def science(run: Run) -> dict[str, Any]:
    """Return the results that must be equal, bit for bit, even if a run was interrupted."""
    result = run.result()
    assert result is not None, run.status()
    rows = run.history()
    for row in rows:
        row.pop("tokens_per_second", None)
        row.pop("crc", None)
    kept = ("metrics", "steps", "tokens_seen", "weights_sha256", "data")
    return {"rows": rows, **{key: getattr(result, key) for key in kept}}


def assert_alike(run: Run, other: Run, rel: float) -> None:
    """Assert that two runs have the same metrics and rows, up to the relative error `rel`."""
    found, expected = science(run), science(other)
    assert found["metrics"] == pytest.approx(expected["metrics"], rel=rel)
    for ours, theirs in zip(found["rows"], expected["rows"], strict=True):
        assert ours == pytest.approx(theirs, rel=rel)


def at_call(
    owner: Any,
    name: str,
    number: int,
    action: Callable[[], None],
    *,
    after: bool = False,
) -> None:
    """Patch `owner.name` so that its call `number`, from 1, first calls `action`.

    With `after=True`, `action` is called after it.
    """
    original = getattr(owner, name)
    calls = itertools.count(1)

    @functools.wraps(original)
    def counted(*args: Any, **kwargs: Any) -> Any:
        chosen = next(calls) == number
        if chosen and not after:
            action()
        value = original(*args, **kwargs)
        if chosen and after:
            action()
        return value

    setattr(owner, name, counted)


def last_words(run: Run) -> list[tuple[Attempt, dict[str, Any]]]:
    """Return pairs (attempt, content of exit.json). A finished attempt has the cause DONE."""
    result = run.result()
    finished = result and result.attempt
    done = {"cause": Cause.DONE}
    return [
        (one, done if one.number == finished else one.exit() or {})
        for one in run.attempts()
    ]


def last_word(run: Run) -> dict[str, Any]:
    """Return the content of exit.json of the newest attempt."""
    *_, (_, word) = last_words(run)
    assert word
    return word


def log_of(run: Run) -> str:
    """Return the log of the newest attempt."""
    return run.attempts()[-1].log_path.read_text("utf-8")


def resumed_from(run: Run) -> int:
    """Return the step from which the newest attempt continued."""
    step: int = run.attempts()[-1].info()["resumed_from"]
    return step


def write_points(outputs: Path, *points: dict[str, Any]) -> None:
    """Write a plan that has these points, their experiments without arms, and their runs."""
    plan: dict[str, Any] = {
        "experiments": {point["experiment"]: {"arms": {}} for point in points},
        "points": points,
        "runs": {point["run"]: {"size": {}, "parent": None} for point in points},
    }
    write_plan(outputs, plan)


def write_corpus(folder: Path, lines: list[str]) -> Changes:
    """Write a folder of text, and return changes that select it."""
    folder.mkdir()
    (folder / "text.txt").write_text("\n".join(lines) + "\n")
    return {"data.source": "local", "data.root": str(folder)}
