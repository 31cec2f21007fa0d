"""A run that is stopped anywhere and continued ends with the same bits as without the stop."""

import os
import shutil
import signal
from functools import partial
from unittest.mock import Mock

import pytest

from sweeper.store.runs import Run, RunStore, State
from tasks import checkpoint
from tasks.lm1b.data import PackedText
from tasks.lm1b.task import LanguageModel
from tasks.module import TaskModule
from tasks.training import distributed, progress
from tasks.training import job as attempts
from tasks.training.progress import Checkpointer
from tests.refusals import refusal
from tests.tasks.jobs import (
    at_call,
    ended,
    freeze,
    kill_self,
    log_of,
    resumed_from,
    run_job,
    science,
    terminate_self,
)


def at(owner, name, number, **when):
    """Return a function `f(action)` that makes the call `number` of `owner.name` call `action`."""
    return lambda action: at_call(owner, name, number, action, **when)


def step(number):
    return at(TaskModule, "training_step", number)


def evaluation(number):
    """Return a function `f(action)` that makes the second batch of an evaluation call `action`."""

    def sabotage(action):
        second_batch = partial(at_call, LanguageModel, "score", 2, action)
        at_call(LanguageModel, "on_validation_epoch_start", number, second_batch)

    return sabotage


# The points at which successive attempts are stopped, each with the step of the newest checkpoint
# then. Validations are at steps 7, 14 and 19, and checkpoints at 4, 8, 12, 16 and 19.
KILLED = [
    (step(1), 0),
    # Before the checkpoint gets its final name.
    (at(checkpoint, "publish_json", 2, after=True), 4),
    (evaluation(1), 4),
    (at(LanguageModel, "on_validation_epoch_start", 2), 12),
    (at(Checkpointer, "save", 1), 12),
    (at(checkpoint, "write_all", 1, after=True), 12),
    (step(7), 16),  # the last step
    (evaluation(1), 16),  # the last validation
    (at(Checkpointer, "save", 1, after=True), 19),
    (evaluation(1), 19),  # on the test split
    (at(checkpoint, "weights_digest", 1), 19),
]
TERMINATED = [
    (at(checkpoint, "write_all", 1), 4),
    (evaluation(1), 7),
    (step(6), 13),  # between two rows
    (evaluation(3), 19),  # on the test split
]


@pytest.mark.parametrize(
    ("points", "action", "code"),
    [
        (KILLED, kill_self, -signal.SIGKILL),  # killed
        (TERMINATED, terminate_self, attempts.INTERRUPTED),  # terminated
    ],
)
def test_stopped_at_any_point_and_run_again_it_ends_with_the_same_bits(
    points, action, code, outputs, undisturbed
):
    run = freeze(outputs)
    for point, saved in points:
        assert run_job(run, lambda point=point: point(action)) == code
        assert run.status().state is State.INTERRUPTED
        newest = [path.name for path in run.checkpoints()[:1]]
        assert newest == ([f"step-{saved:08d}.ckpt"] if saved else [])
    assert run_job(run) == 0
    assert science(run) == undisturbed


def test_a_copy_of_a_run_in_training_is_trained_too(outputs, tmp_path, undisturbed):
    original = freeze(outputs)
    original.claim({})  # by the process of this test, which is alive
    copy = RunStore(shutil.copytree(outputs, tmp_path / "copy")).run(original.id)
    assert (run_job(original), run_job(copy)) == (75, 0)
    assert science(copy) == undisturbed


def test_asked_to_stop_while_the_data_is_prepared_it_stops_there(tmp_path, undisturbed):
    stop = partial(at_call, PackedText, "prepare_data", 1, terminate_self)
    run = ended(tmp_path / "outputs", sabotage=stop, code=75)
    assert run_job(run) == 0
    assert science(run) == undisturbed


def test_asked_to_stop_before_its_log_is_there_it_says_so(outputs):
    stop = partial(at_call, attempts, "redirected_output", 1, terminate_self)
    run = ended(outputs, sabotage=stop, code=75)
    assert run.attempts()[0].exit()["cause"] == "interrupted"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_changes_nothing(outputs, number):
    def twice():
        terminate_self()
        os.kill(os.getpid(), number)

    run = ended(outputs, sabotage=lambda: step(13)(twice), code=75)
    assert run.checkpoints()[0].name == "step-00000013.ckpt"
    assert run.status().state is State.INTERRUPTED


def test_asked_to_stop_when_the_result_is_about_to_be_published_it_publishes(outputs):
    run = ended(
        outputs, sabotage=partial(at_call, Run, "publish_result", 1, terminate_self)
    )
    assert run.status().state is State.DONE


@pytest.fixture(scope="module")
def _killed_once(prepared):
    ended(prepared, sabotage=lambda: step(13)(kill_self), code=-9)
    return prepared


@pytest.fixture
def killed(_killed_once, tmp_path):
    """A run that was killed at step 13, in an outputs folder for a single test."""
    return RunStore(shutil.copytree(_killed_once, tmp_path / "outputs")).run("small")


@pytest.mark.parametrize(
    "damage", ["bit flip", "cut short", "no digest", "another run's", "all"]
)
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(
    damage, killed, undisturbed
):
    newest, before = killed.checkpoints()
    content = bytearray(newest.read_bytes())
    if damage == "bit flip":
        content[len(content) // 2] ^= 1
        newest.write_bytes(content)
    elif damage == "cut short":
        newest.write_bytes(content[: len(content) // 2])
    elif damage == "no digest":
        checkpoint.sidecar(newest).unlink()
    elif damage == "all":
        for path in (newest, before):
            path.write_bytes(b"")
    else:
        checkpoint.save(checkpoint.load(newest), newest, "another")
    assert run_job(killed) == 0
    log = log_of(killed)
    assert f"{newest} is not used" in log
    assert (f"continues from {before}" in log) == (damage != "all")
    assert resumed_from(killed) == (8 if damage != "all" else 0)
    assert science(killed) == undisturbed


def test_what_is_kept_is_two_checkpoints_and_in_the_end_the_weights(killed):
    names = [path.name for path in killed.checkpoints()]
    assert names == ["step-00000012.ckpt", "step-00000008.ckpt"]
    unfinished = killed.attempts()[0].checkpoint_dir / ".step-00000019.ckpt.0123.tmp"
    unfinished.write_bytes(b"what a kill in mid-write leaves")
    assert run_job(killed) == 0
    left = sorted(path.name for path in killed.path.glob("attempts/*/checkpoints/*"))
    assert left == ["weights.ckpt", "weights.ckpt.sha256"]
    assert not unfinished.exists()


class Opens:
    """An object that creates the file `ran` when it is unpickled."""

    def __reduce__(self):
        return eval, ("open('ran', 'w')",)


def test_a_checkpoint_that_would_run_code_is_refused_in_our_words(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    checkpoint.save({"weights": Opens()}, tmp_path / "weights.ckpt", "run")
    caught = refusal(checkpoint.load, tmp_path / "weights.ckpt")
    assert "cannot be loaded: it is damaged, or has other objects" in caught
    assert "weights_only" not in caught
    assert not (tmp_path / "ran").exists()


def test_without_further_validations_a_continued_run_has_no_old_score(prepared):
    """`trainer.validate_every` is not in the run id, so it may change between attempts."""
    ended(prepared, {}, "scored", sabotage=lambda: step(13)(kill_self), code=-9)
    run = ended(prepared, {"trainer.validate_every": 0}, "scored")
    assert resumed_from(run) == 12
    assert not run.result().validation


def test_with_validations_a_continued_run_scores_its_last_step(prepared):
    before = partial(at_call, checkpoint, "weights_digest", 1, kill_self)
    rarely = {"trainer.validate_every": 0}
    ended(prepared, rarely, "late", sabotage=before, code=-9)
    run = ended(prepared, {}, "late")
    assert resumed_from(run) == 19
    assert run.result().validation["validation/loss"] > 0


def test_the_time_of_an_interrupted_validation_is_no_training_time(prepared):
    waited = 20.0
    clocks = progress._clocks

    def stop_after_a_long_batch():
        progress._clocks = lambda: clocks() + waited
        terminate_self()

    validation = partial(at_call, LanguageModel, "score", 1, stop_after_a_long_batch)
    run = ended(prepared, {"seed": 5}, "cut", sabotage=validation, code=75)
    assert run_job(run) == 0
    assert run.result().seconds < waited


def test_the_history_of_a_run_trained_anew_has_no_row_of_the_first_training(prepared):
    changes = {"seed": 6}
    often = {**changes, "trainer.log_every": 1}
    ended(prepared, often, "anew").begin_anew()
    ended(prepared, changes, "anew", sabotage=lambda: step(13)(terminate_self), code=75)
    run = ended(prepared, changes, "anew")
    assert resumed_from(run) == 13
    logged = [row["step"] for row in run.history() if "train/loss" in row]
    assert logged == [5, 10, 15, 19]


def test_a_killed_rank_is_noted_in_no_attempt_of_another_job(outputs, monkeypatch):
    run = freeze(outputs)

    def start(*arguments, **options):
        run.claim({})
        return Mock(processes=[])

    def killed(ranks):
        run.claim({})  # another sweep starts the run again
        return -signal.SIGKILL

    monkeypatch.setattr(distributed, "start_processes", start)
    monkeypatch.setattr(distributed, "pass_signals_on", lambda processes: None)
    monkeypatch.setattr(distributed, "exit_code_of", killed)
    distributed.supervise(run, {"num_nodes": 1, "devices": 2}, lambda path: 0)
    own, other = run.attempts()
    assert (own.exit()["cause"], other.exit()) == ("killed", None)
