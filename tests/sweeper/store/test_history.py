"""Attempts add up to the rows and checkpoints of one run."""

from __future__ import annotations

from sweeper.store.attempts import Attempt
from sweeper.store.runs import Run

RESULT = {"metrics": {"test/loss": 3.25}, "steps": 1000, "weights_sha256": "0" * 64}


def attempt_with(run: Run, resumed_from: int, steps: range, label: str) -> Attempt:
    attempt = run.claim({"resumed_from": resumed_from})
    with attempt.metrics() as metrics:
        for step in steps:
            metrics.write({"step": step, "train/loss": float(step), "by": label})
    attempt.finish("interrupted")
    return attempt


def authors(run: Run) -> dict[int, str]:
    history = run.history()
    steps = [row["step"] for row in history]
    assert steps == sorted(set(steps)), "each step once, in order"
    return {row["step"]: row["by"] for row in history}


def test_history_after_two_resumes_reads_as_one_run(run):
    attempt_with(run, 0, range(1, 8), "first")
    attempt_with(run, 5, range(6, 14), "second")
    attempt_with(run, 11, range(12, 18), "third")
    expected = dict.fromkeys(range(1, 6), "first")
    expected |= dict.fromkeys(range(6, 12), "second")
    expected |= dict.fromkeys(range(12, 18), "third")
    assert authors(run) == expected


def test_what_an_earlier_attempt_did_beyond_the_resumed_step_does_not_count(run):
    attempt_with(run, 0, range(1, 18), "first")
    attempt_with(run, 5, range(6, 8), "second")
    assert max(authors(run)) == 7


def test_a_restart_from_nothing_supersedes_all(run):
    attempt_with(run, 0, range(1, 8), "first")
    attempt_with(run, 0, range(1, 4), "second")
    assert authors(run) == dict.fromkeys((1, 2, 3), "second")


def test_an_attempt_that_came_to_nothing_leaves_no_gap(run):
    attempt_with(run, 0, range(1, 8), "first")
    attempt_with(run, 0, range(1, 3), "second")
    attempt_with(run, 5, range(6, 8), "third")
    assert list(authors(run)) == [1, 2, 3, 4, 5, 6, 7]


def test_the_history_of_a_done_run_ends_with_the_attempt_that_finished_it(run):
    slow = attempt_with(run, 0, range(1, 14), "slow")
    attempt_with(run, 5, range(6, 8), "claimed in vain")
    run.publish_result(slow, RESULT)
    assert authors(run) == dict.fromkeys(range(1, 14), "slow")


def test_rows_of_one_step_join(run):
    with run.claim({}).metrics() as metrics:
        metrics.write({"step": 7, "train/loss": 2.0})
        metrics.write({"step": 7, "validation/loss": 3.0})
    assert run.history() == [{"step": 7, "train/loss": 2.0, "validation/loss": 3.0}]


def test_a_row_that_a_resumed_attempt_writes_at_the_step_it_resumed_at_joins(run):
    """A job stopped in the validation of step 5 resumes from 5 and validates again."""
    attempt_with(run, 0, range(1, 6), "first")
    second = run.claim({"resumed_from": 5})
    with second.metrics() as metrics:
        metrics.write({"step": 5, "validation/loss": 2.0})
    assert run.history()[-1] == {
        "step": 5,
        "train/loss": 5.0,
        "by": "first",
        "validation/loss": 2.0,
    }


def test_a_run_without_attempts_has_no_history(run):
    assert run.history() == []
    assert run.checkpoints() == []


def test_checkpoints_come_newest_step_first_over_all_attempts(run):
    for attempt, steps in ((run.claim({}), (5, 700, 1100)), (run.claim({}), (700, 900))):
        for step in steps:
            (attempt.checkpoint_dir / f"step-{step:08d}.ckpt").write_text("x")
        (attempt.checkpoint_dir / f"step-{step:08d}.ckpt.sha256").write_text("x")
        (attempt.checkpoint_dir / ".step-00009999.ckpt.0123.tmp").write_text("x")
        (attempt.checkpoint_dir / "step-00008888.ckpt").symlink_to("/etc/passwd")
        (attempt.checkpoint_dir / "step-00007777.ckpt").mkdir()
    found = [(path.parts[-3], path.name) for path in run.checkpoints()]
    assert found == [
        ("0001", "step-00001100.ckpt"),
        ("0002", "step-00000900.ckpt"),
        ("0002", "step-00000700.ckpt"),
        ("0001", "step-00000700.ckpt"),
        ("0001", "step-00000005.ckpt"),
    ]
