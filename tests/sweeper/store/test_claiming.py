"""An attempt belongs to the one process that claimed it, and what the dead left goes."""

from __future__ import annotations

import os
import stat

import pytest

from sweeper.store.liveness import identity

CLAIM_MANY = """
import os, sys
from pathlib import Path
os.fsync = lambda descriptor: None  # about exclusion, not about power cuts
from sweeper.store.runs import Run
run = Run.open(Path(sys.argv[1]))
GO
print(*[run.claim({"owner": sys.argv[2]}).number for _ in range(50)])
"""


def test_two_processes_that_claim_50_times_never_get_the_same(run, race):
    outputs = race(CLAIM_MANY, 2, run.path)
    numbers = {owner: [int(word) for word in text.split()] for owner, text in enumerate(outputs)}
    assert [len(own) for own in numbers.values()] == [50, 50]
    assert not set(numbers[0]) & set(numbers[1])
    assert [attempt.number for attempt in run.attempts()] == list(range(1, 101))
    for owner, own in numbers.items():
        for attempt in run.attempts():
            assert (attempt.info()["owner"] == str(owner)) == (attempt.number in own)


def test_a_claim_tells_who_holds_it_and_is_private(run):
    attempt = run.claim({"resumed_from": 300, "versions": {"torch": "2.13.0"}})
    assert attempt.path == run.path / "attempts" / "0001"
    info = attempt.info()
    assert info.items() >= identity().items()
    assert info["number"] == 1
    assert info["resumed_from"] == 300
    assert info["versions"] == {"torch": "2.13.0"}
    assert attempt.checkpoint_dir.is_dir()
    for folder in (attempt.path, attempt.checkpoint_dir, run.path, run.path.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_failed_claim_leaves_no_attempt(run, monkeypatch):
    def refuse(*arguments):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", refuse)
        with pytest.raises(OSError, match="No space left"):
            run.claim({})
    assert list((run.path / "attempts").iterdir()) == []
    assert run.claim({}).number == 1


@pytest.mark.parametrize("intruder", ["file", "link", "attempt"])
def test_a_number_that_is_taken_is_passed_over(run, intruder, monkeypatch):
    first = run.claim({})
    taken = run.path / "attempts" / "0002"
    if intruder == "file":
        taken.write_text("mine")
    elif intruder == "link":
        taken.symlink_to(first.path)
    else:
        taken.mkdir()
        (taken / "attempt.json").write_text("{}")
        monkeypatch.setattr("sweeper.store.attempts.find_attempts", lambda *_: [first])
    assert run.claim({}).number == 3
    assert first.info()["number"] == 1


@pytest.mark.parametrize(
    ("owner", "left"),
    [
        pytest.param({"pid_started": -1}, 0, id="dead"),
        pytest.param({}, 1, id="alive"),
        pytest.param({"boot": "x", "host": "another"}, 1, id="elsewhere"),
    ],
)
def test_only_leftovers_of_the_dead_are_removed(run, owner, left):
    attempt = run.claim({})
    text = (attempt.path / "attempt.json").read_text()
    for key, value in owner.items():
        old = attempt.info()[key]
        text = text.replace(f'"{key}": {quoted(old)}', f'"{key}": {quoted(value)}')
    (attempt.path / "attempt.json").write_text(text)
    assert attempt.info().items() >= owner.items()
    half = attempt.checkpoint_dir / ".step-00000007.ckpt.0123456789abcdef.tmp"
    half.write_text("half a checkpoint")
    whole = attempt.checkpoint_dir / "step-00000005.ckpt"
    whole.write_text("a checkpoint")
    run.claim({})
    assert half.exists() == bool(left)
    assert whole.exists()


def quoted(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def test_what_is_no_attempt_is_not_listed(run, tmp_path):
    run.claim({})
    folder = run.path / "attempts"
    (folder / ".claim.0123456789abcdef.tmp").mkdir()
    (folder / "0007").write_text("a file")
    (folder / "0011").symlink_to(tmp_path)
    (folder / "notes").mkdir()
    assert [attempt.number for attempt in run.attempts()] == [1]
