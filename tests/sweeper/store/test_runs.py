"""Tests of the record, the result and the state of a run."""

import shutil
from contextlib import suppress
from dataclasses import replace

import pytest

from sweeper.store.attempts import Attempt
from sweeper.store.errors import UserError
from sweeper.store.files import FORMAT, publish_with_checksum
from sweeper.store.identity import run_id
from sweeper.store.liveness import Watcher
from sweeper.store.records import Record, Result
from sweeper.store.runs import Run, RunStore, State
from tests.refusals import refusal
from tests.sweeper.conftest import finish
from tests.sweeper.store.conftest import elsewhere


def test_freezing_again_changes_nothing(store, record):
    path = store.freeze(record).path / "run.json"
    before = (path.read_bytes(), path.stat().st_ino)
    config = dict(reversed(record.config.items())) | {"seed": 0.0}
    store.freeze(replace(record, config=config, names={"experiment": "fig3"}))
    assert (path.read_bytes(), path.stat().st_ino) == before


def test_keys_that_cannot_change_a_result_may_differ(store, record):
    run = store.freeze(record)
    other = replace(record, config=record.config | {"logger": {"mode": "online"}})
    store.freeze(other)
    assert run.record() == other, "what cannot change the result is taken as typed"
    finish(run, {})
    store.freeze(record)
    assert run.record() == other, "of a finished run it says what was"


def test_what_is_no_run_directory_is_told_in_a_sentence(run, tmp_path):
    copied = shutil.copytree(run.path, run.path.with_name("renamed"))
    for path in (tmp_path, run.path.parent, run.path / "run.json", copied):
        assert "expected" in refusal(Run.open, path)


def test_ids_are_the_frozen_runs_in_order(store, record):
    assert store.ids() == []
    names = [f"run-{number:03d}" for number in (7, 3, 11, 2, 5)]
    for name in names:
        store.freeze(replace(record, id=name))
    (store.outputs / "runs" / "stray").write_text("x")
    (store.outputs / "runs" / "without-a-record").mkdir()
    (store.outputs / "runs" / "link").symlink_to(store.outputs / "runs" / names[0])
    assert store.ids() == sorted(names)


def test_only_a_run_elsewhere_whose_heartbeat_moves_is_in_training(
    store, record, watcher, now, monkeypatch
):
    start, ids = now[0], ("done", "dead", "alive")
    store = RunStore(store.outputs, watcher)
    attempts = {id: store.freeze(replace(record, id=id)).claim({}) for id in ids}
    attempts["done"].finish("interrupted")
    for id in ("dead", "alive"):
        elsewhere(attempts[id])

    def sleep(seconds):
        now[0] += 7.0
        attempts["alive"].heartbeat()

    monkeypatch.setattr("sweeper.store.runs.time.sleep", sleep)
    assert store.in_training(ids) == "alive"
    assert now[0] == start + 7.0
    assert store.in_training(ids[:2]) is None
    assert now[0] == start + 91.0


RESULT = {"metrics": {"test/loss": 3.25}, "steps": 1000, "weights_sha256": "0" * 64}
PUBLISH = """
import sys
from pathlib import Path
from sweeper.store.runs import Run
run = Run.open(Path(sys.argv[1]))
attempt = run.claim({})
loss = 3.25 + (int(sys.argv[3]) if sys.argv[2] == "different" else 0)
GO
won = run.publish_result(attempt, {"metrics": {"test/loss": loss}, "steps": 7})
print(attempt.number, won)
"""


def test_a_result_makes_the_run_done_and_names_its_attempt(run):
    run.claim({}).finish("crash")
    attempt = run.claim({})
    assert run.publish_result(attempt, RESULT)
    assert run.result() == Result(run.id, 2, **RESULT)
    status = run.status()
    assert (status.state, status.heartbeat) == (State.DONE, None)
    assert status.reason == "finished at step 1000 (attempt 2)"


@pytest.mark.parametrize("kind", ["identical", "different"])
def test_of_5_finishers_at_once_one_publishes(run, race, kind):
    answers = dict(text.split() for text in race(PUBLISH, 5, run.path, kind))
    (winner,) = [int(number) for number, won in answers.items() if won == "True"]
    assert len(answers) == 5
    assert run.result().attempt == winner
    differing = sorted(path.name for path in run.path.glob("differs-*.json"))
    losers = {*range(1, 6)} - {winner} if kind == "different" else ()
    assert differing == [f"differs-{number:04d}.json" for number in losers]
    status = run.status()
    assert status.state is State.DONE
    assert all(name in status.reason for name in differing)


@pytest.mark.parametrize(
    ("cause", "state", "reason"),
    [
        ("interrupted", "interrupted", "interrupted at step 3 of 7"),
        ("nan", "failed", "nan: 3 GiB asked"),
        (
            "done",
            "failed",
            "no_result: exit.json says `done`, but there is no result.json",
        ),
    ],
)
def test_the_newest_attempt_decides(run, cause, state, reason):
    run.claim({}).finish("crash", "an older story")
    attempt = run.claim({})
    assert run.status().state is State.RUNNING
    assert run.status().reason == "running before its first step (attempt 2)"
    attempt.heartbeat(step=3, steps=7)
    attempt.finish(cause, "3 GiB asked")
    status = run.status()
    assert (status.state, status.reason) == (state, f"{reason} (attempt 2)")


def test_a_result_published_while_the_state_is_read_is_not_missed(run, monkeypatch):
    attempt = run.claim({})
    real = Attempt.alive

    def finishes_meanwhile(self, heartbeat):
        run.publish_result(attempt, RESULT)
        attempt.finish("done")
        return real(self, heartbeat)

    monkeypatch.setattr(Attempt, "alive", finishes_meanwhile)
    assert run.status().state is State.DONE


def test_a_last_word_said_while_the_state_is_read_is_not_missed(run, monkeypatch):
    attempt = run.claim({})

    def fails_just_after(*asked):
        attempt.finish("nan", "loss is nan")
        return True

    monkeypatch.setattr(Watcher, "alive", fails_just_after)
    assert run.status().state is State.FAILED


def test_a_record_whose_seal_was_made_anew_is_not_the_run_of_its_name(tmp_path):
    config = {"task": {"name": "lm1b"}, "seed": 3, "logger": {"name": "none"}}
    run = RunStore(tmp_path).freeze(Record(run_id(config), config))

    def seal(**changed):
        path = run.path / "run.json"
        path.unlink()
        value = {"format": FORMAT, "id": run.id, "config": config | changed}
        assert publish_with_checksum(path, value)

    seal(seed=5)
    assert f"the run.json of run {run.id}" in refusal(Run.open, run.path)
    other = {"name": "wandb"}  # the logger does not enter the id of a run
    seal(logger=other)
    assert Run.open(run.path).record().config["logger"] == other


@pytest.mark.parametrize("name", ["run.json", "result.json"])
def test_every_cut_and_every_changed_letter_is_noticed(run, name):
    finish(run, RESULT)
    path = run.path / name
    whole = path.read_bytes()
    read = run.record if name == "run.json" else run.result
    good = read()
    for place in range(len(whole)):
        for damaged in (whole[:place], whole[:place] + b"7" + whole[place + 1 :]):
            path.write_bytes(damaged)
            with suppress(UserError):
                # The change had no effect, such as a lost line end.
                assert read() == good
