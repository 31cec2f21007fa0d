"""From finished trials to what is judged: ranges grow for all arms alike, what is open is said."""

from __future__ import annotations

import math
import os

import pytest

from sweeper.store.runs import RunStore
from sweeper.train import freeze
from sweeper.tune import Tuning, budgets

RATE = "optimizer.learning_rate"
TYPED = (
    *("experiment=fig1_tuned", "scale=cpu", "seed=0", "trainer.steps=5000"),
    f"experiment.tune.grid={{{RATE}:[0.005,0.01,0.02]}}",
    "experiment.tune.grow=2",
)


@pytest.fixture
def tuning(plan, process, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    found = plan(*TYPED, "experiment.tune.per=arm")
    return Tuning.of(found, process, RunStore(tmp_path))


def train(tuning, best):
    """Have the trials done; `best` is the rate that each arm learns most with."""
    freeze(tuning.trials, tuning.store, {})
    for point in tuning.trials.points:
        run = tuning.store.run(point.run)
        if run.result() is None:
            loss = 1 + abs(math.log(point.values[RATE] / best[point.arm]))
            attempt = run.claim({})
            measured = {"metrics": {"test/loss": 0.0}, "validation": {"validation/loss": loss}}
            run.publish_result(attempt, {**measured, "steps": 1, "seconds": 1.0})
            attempt.finish("done")


def tried(tuning):
    """The rates that each arm has tried."""
    found = {}
    for point in tuning.trials.points:
        found.setdefault(point.arm, set()).add(point.values[RATE])
    return found


def judged(tuning):
    return {p.arm: tuning.judged.runs[p.run].config["optimizer"] for p in tuning.judged.points}


ARMS = ("standard", "fixed", "matched", "collaborative")
FIRST = {0.005, 0.01, 0.02}


def test_inside_the_range_nothing_grows_and_each_arm_has_its_own(tuning):
    assert tuning.judged is None
    train(tuning, dict.fromkeys(ARMS, 0.01))
    assert tuning.advance()
    assert tried(tuning) == dict.fromkeys(ARMS, FIRST)
    assert {own["learning_rate"] for own in judged(tuning).values()} == {0.01}
    before = {p.arm: tuning.plan.runs[p.run].config["optimizer"] for p in tuning.plan.points}
    assert {arm: {**own, "learning_rate": 0.01} for arm, own in before.items()} == judged(tuning)


def test_where_one_arm_is_at_an_end_all_try_one_value_more(tuning):
    best = {**dict.fromkeys(ARMS, 0.01), "fixed": 0.04}
    train(tuning, best)
    assert not tuning.advance()
    assert tried(tuning) == dict.fromkeys(ARMS, FIRST | {0.04})
    train(tuning, best)
    assert not tuning.advance()
    train(tuning, best)
    assert tuning.advance()
    assert tried(tuning) == dict.fromkeys(ARMS, FIRST | {0.04, 0.08})
    assert {arm: own["learning_rate"] for arm, own in judged(tuning).items()} == best
    [told] = tuning.judged.as_data()["experiments"].values()
    assert [choice["at_end"] for choice in told["tuning"]] == [[]] * 4
    assert told["tune"]["grid"] == {RATE: [0.005, 0.01, 0.02, 0.04, 0.08]}


def test_a_range_grows_no_further_than_it_may_and_the_end_is_said(tuning):
    best = {**dict.fromkeys(ARMS, 0.01), "fixed": 9.0}
    train(tuning, best)
    while not tuning.advance():
        train(tuning, best)
    assert tried(tuning) == dict.fromkeys(ARMS, FIRST | {0.04, 0.08})
    at_end = {
        choice["arm"]: choice["at_end"]
        for [*choices] in tuning.judged.tuning.values()
        for choice in choices
    }
    assert at_end == {arm: [RATE] * (arm == "fixed") for arm in ARMS}


def test_read_again_from_disk_it_chooses_the_same(tuning, plan, process):
    best = {**dict.fromkeys(ARMS, 0.01), "standard": 0.001}
    train(tuning, best)
    while not tuning.advance():
        train(tuning, best)
    again = Tuning.of(tuning.plan, process, tuning.store)
    assert again.judged is not None
    assert again.judged.as_data() == tuning.judged.as_data()
    assert again.trials.as_data() == tuning.trials.as_data()
    for point in again.judged.points:
        assert set(point.chosen.trials) <= again.trials.runs.keys()


def test_the_cost_is_told_before_as_it_is_and_at_most(tuning):
    [line] = budgets(tuning)
    assert "among 3 by validation/loss, with 3 trials a choice in every arm" in line
    assert "(standard 1, fixed 1, matched 1, collaborative 1 choices): 12 trials in all" in line
    assert "of the FLOPs of the judged runs, at most" in line
