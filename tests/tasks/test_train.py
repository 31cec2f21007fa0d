"""The files and values that a successful job writes."""

import math

import pytest
import torch

from tasks import checkpoint
from tasks.parse import module_of, parse
from tests.tasks.jobs import ended, run_job, science


@pytest.fixture(scope="module")
def done(prepared):
    return ended(prepared, {"trainer.log_every": 1}, "done")


def test_the_rows_tell_every_step_and_the_rate_it_had(done):
    rows, steps = done.history(), range(1, 20)
    assert [row["step"] for row in rows] == [*steps]
    assert [row["tokens_seen"] for row in rows] == [93 * step for step in steps]
    rates = map(module_of(parse(done.record().config)).learning_rate, steps)
    assert [row["learning_rate"] for row in rows] == [*rates]
    validated = [row["step"] for row in rows if "validation/loss" in row]
    assert validated == [7, 14, 19]


def test_the_result_says_what_the_run_was_worth_and_where_it_came_from(done):
    result = done.result()
    assert (result.steps, result.tokens_seen, result.attempt) == (
        19,
        19 * 93,
        1,
    )
    assert result.tokens_per_second == pytest.approx(
        result.tokens_seen / result.seconds
    )
    assert result.data.keys() == {"sha256"}
    assert done.attempts()[0].info()["versions"]["torch"] == torch.__version__


def test_a_finished_run_leaves_seven_files(done):
    """Some file systems limit the number of files, and there may be ten thousand runs."""
    left = sorted(path.name for path in done.path.rglob("*") if path.is_file())
    expected = "attempt.json log.txt metrics.jsonl result.json run.json"
    assert left == f"{expected} weights.ckpt weights.ckpt.sha256".split()


def test_the_final_weights_are_those_whose_digest_is_published(done):
    result = done.result()
    path = done.attempts()[0].checkpoint_dir / "weights.ckpt"
    checkpoint.verify(path, done.id)
    weights = checkpoint.load(path)
    assert checkpoint.weights_digest(weights) == result.weights_sha256
    module_of(parse(done.record().config)).model.load_state_dict(weights)


def test_a_finished_run_is_not_begun_again(done):
    assert run_job(done) == 0
    assert len(done.attempts()) == 1


def test_the_same_record_gives_the_same_bits_and_another_seed_does_not(done, prepared):
    again = ended(prepared, {"trainer.log_every": 1}, "again")
    other = ended(prepared, {"trainer.log_every": 1, "seed": 4}, "other")
    assert science(again) == science(done)
    assert science(other)["weights_sha256"] != science(done)["weights_sha256"]


def test_how_often_it_looks_at_itself_changes_nothing(done, prepared):
    never = {"trainer.validate_every": 0, "trainer.checkpoint_every": 0}
    run = ended(prepared, {**never, "trainer.log_every": 19}, "rarely")
    for key in ("weights_sha256", "metrics"):
        assert science(run)[key] == science(done)[key]
    looked_at = [row["step"] for row in run.history() if "validation/loss" in row]
    assert looked_at == [*range(3, 19, 3), 19]  # every eighth of the run, rounded up
    assert run.result().validation == {}
    losses = [row["train/loss"] for row in done.history()]
    assert run.history()[-1]["train/loss"] == math.fsum(losses) / len(losses)
