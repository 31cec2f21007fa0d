"""A job as small as a job can be, and ways to run it in a process of its own and break it."""

import copy
import functools
import os
import signal
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from sweeper.store.attempts import Attempt, Cause
from sweeper.store.records import Record
from sweeper.store.runs import Run, RunStore
from tasks import train
from tasks.size_server.fork import become_job
from tests.policies import shipped

# Primes wherever that is possible, so that no size can stand in for another.
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
"""Dotted keys and what they become; `...` takes a key away."""


@functools.cache
def composed(typed: str) -> dict[str, Any]:
    """The config of conf/ with the settings of all small runs and these; nobody changes it."""
    return shipped().base([*SETTINGS.split(), *typed.split()]).run({})


def config(changes: Changes = {}) -> dict[str, Any]:  # noqa: B006 (never changed)
    """The small config, with changes."""
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
    """Write the record of a run."""
    names = {"experiment": "none", "arm": "none", "label": name}
    return RunStore(outputs).freeze(Record(name, config(changes), names=names))


def run_job(run: Run, sabotage: Callable[[], None] = lambda: None) -> int:
    """Run a job in a forked process after `sabotage`; its exit code, a signal's as negative."""
    sys.stdout.flush()
    sys.stderr.flush()
    log = run.outputs / "terminal.txt"
    with warnings.catch_warnings():
        # Python >= 3.12 warns where threads of other tests' libraries are still about.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:

        def work() -> int:
            # pytest has put its own in their place, which would take what the job prints.
            sys.stdout, sys.stderr = (
                os.fdopen(number, "w", closefd=False) for number in (1, 2)
            )
            sabotage()
            return train.main(str(run.path))

        become_job(work, log=str(log), close=())
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def ended(
    outputs: Path,
    changes: Changes = {},  # noqa: B006
    name: str = "small",
    *,
    sabotage: Callable[[], None] = lambda: None,
    code: int = 0,
) -> Run:
    """A run of this config whose first job ended with this exit code."""
    run = freeze(outputs, changes, name)
    assert run_job(run, sabotage) == code, run.status()
    return run


def kill_self() -> None:
    """End this process as a power cut would."""
    os.kill(os.getpid(), signal.SIGKILL)


def terminate_self() -> None:
    """Ask this process to stop."""
    os.kill(os.getpid(), signal.SIGTERM)


def science(run: Run) -> dict[str, Any]:
    """What must be the same, to the bit, however a run was disturbed."""
    result = run.result()
    assert result is not None, run.status()
    rows = [
        {
            key: value
            for key, value in row.items()
            if key not in ("tokens_per_second", "crc")
        }
        for row in run.history()
    ]
    kept = ("metrics", "steps", "tokens_seen", "weights_sha256", "data")
    return {"rows": rows, **{key: result[key] for key in kept}}


def assert_alike(run: Run, other: Run, rel: float) -> None:
    """Assert that two runs have the same metrics and rows but for rounding."""
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
    """Have `action` done before, or after, the `number`th call of `owner.name`."""
    original = getattr(owner, name)
    calls = 0

    @functools.wraps(original)
    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        own = calls
        if own == number and not after:
            action()
        value = original(*args, **kwargs)
        if own == number and after:
            action()
        return value

    setattr(owner, name, counted)


def instead_of_call(owner: Any, name: str, number: int, error: BaseException) -> None:
    """Have the `number`th call of `owner.name` raise `error`."""

    def fail() -> None:
        raise error

    at_call(owner, name, number, fail)


def last_words(run: Run) -> list[tuple[Attempt, dict[str, Any]]]:
    """Each attempt with what it said at its end; result.json says it of the one that finished."""
    finished = (run.result() or {}).get("attempt")
    done = {"cause": Cause.DONE, "message": ""}
    return [
        (one, done if one.number == finished else one.exit() or {})
        for one in run.attempts()
    ]


def last_word(run: Run) -> dict[str, Any]:
    """What the newest attempt said when it ended."""
    *_, (_, word) = last_words(run)
    assert word
    return word


def write_corpus(folder: Path, lines: list[str]) -> str:
    """A folder of text for data.root."""
    folder.mkdir()
    (folder / "text.txt").write_text("\n".join(lines) + "\n")
    return str(folder)
