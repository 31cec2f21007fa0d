"""Tests of tuning: which values are tried, and which of them are chosen."""

import math
import re
from collections import Counter
from itertools import product

import pytest

from sweeper.plan.experiment import at_end, beyond
from sweeper.plan.seeds import with_seeds
from sweeper.stages.train import freeze
from sweeper.stages.tune import Tuning
from sweeper.store.attempts import Cause
from sweeper.store.runs import RunStore, State
from tests.refusals import refusal
from tests.sweeper.conftest import finish
from tests.sweeper.plan.conftest import points

RATE = "optimizer.learning_rate"
TUNE = "experiment.tune"
CPU = "scale=cpu"
RATES = [0.005, 0.01, 0.02]


@pytest.fixture
def tried(plan, process, tmp_path):
    """Two plans of fig1_tuned: that of the judged runs, and that of the first trials."""
    found = plan("experiment=fig1_tuned", CPU)
    return found, Tuning.of(found, process, RunStore(tmp_path)).trials


def setting(point):
    """Return the arm of a point and its values without the rate."""
    return point.arm, str({k: v for k, v in point.values.items() if k != RATE})


def test_every_choice_has_equally_many_trials_and_otherwise_each_is_what_is_judged(
    tried,
):
    judged, found = tried
    assert {*Counter(map(setting, found.points)).values()} == {3}
    assert not {p.seed for p in found.points} & {p.seed for p in judged.points}
    configs = {setting(p): judged.runs[p.run].config for p in judged.points}
    for point in found.points:
        own, config = found.runs[point.run].config, configs[setting(point)]
        # Trials validate only after the last step.
        last = {"validate_every": config["trainer"]["steps"]}
        assert own["trainer"] == config["trainer"] | last
        tried = {"learning_rate": point.values[RATE]}
        assert own["optimizer"] == config["optimizer"] | tried
        for section in ("model", "task", "data"):
            assert own[section] == config[section]


def test_trials_begin_at_the_fewest_and_the_most_parameters_of_each_arm(tried):
    for arm in ARMS:
        every, own = (
            {plan.runs[p.run].size["params_total"] for p in plan.points if p.arm == arm}
            for plan in tried
        )
        assert own == {min(every), max(every)}
    assert len(tried[1].points) == 3 * (2 + 2 + 1 + 1)


def test_further_seeds_leave_out_those_of_the_trials(plan):
    found = plan("experiment=fig1_tuned", CPU, f"{TUNE}.seeds=[3,5,7]")
    [first, *_] = found.points
    more = with_seeds(found, {first.run: 5})
    seeds = [point.seed for point in more.points if point.values == first.values]
    assert seeds == [0, 1, 2, 4, 6]


@pytest.mark.parametrize(
    ("typed", "tuned"),
    [
        ("fig1 scale=demo", False),
        ("fig1 scale=demo experiment.tuned=true", True),
        (f"fig1 {CPU}", True),
        (f"fig1 {CPU} experiment.tuned=false", False),
        (f"fig1 {CPU} {TUNE}=null", False),
        # An override of a tuned key replaces tuning.
        (f"fig1_tuned {CPU} {RATE}=0.03", False),
    ],
)
def test_tuning_is_switched_on_and_off_at_any_scale_and_has_a_name_of_its_own(
    plan, typed, tuned
):
    [experiment] = plan(f"experiment={typed}").experiments.values()
    assert bool(experiment.tune) is tuned
    assert (experiment.name == experiment.yaml) is (typed == "fig1 scale=demo")


COSTLY = "keys that do not change the size of a model or the cost of a run"


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (f"++{TUNE}.grid={{model.feedforward_size:[8,16]}}", COSTLY),
        (f"++{TUNE}.grid={{task.sequence_length:[8,16]}}", COSTLY),
        (f"{TUNE}.by=validation/attention_rank", "rank: expected a name that ends"),
    ],
    ids=["size", "cost", "metric without a better"],
)
def test_what_cannot_be_tuned_starts_no_trial(plan, process, tmp_path, typed, told):
    found = plan("experiment=fig1_tuned", CPU, typed)
    assert told in refusal(Tuning.of, found, process, RunStore(tmp_path))


@pytest.mark.parametrize(
    ("values", "best", "following", "end"),
    [
        (RATES, 0.02, 0.04, True),
        (RATES, 0.005, 0.0025, True),
        (RATES, 0.01, None, False),
        ([100, 200], 200, 400, True),
        (["linear", "constant"], "constant", None, False),
        ([0.0, 0.1], 0.1, None, True),  # a geometric step from 0 leads nowhere
        ([0.0, 0.1], 0.0, None, False),
    ],
)
def test_a_range_grows_by_its_own_step_where_the_best_lies_at_its_end(
    values, best, following, end
):
    assert beyond(values, best) == following
    assert at_end(values, best) == end


@pytest.fixture
def tuning(plan, process, tmp_path):
    typed = ("experiment=fig1_tuned", CPU, "seed=0", "trainer.steps=5000")
    grid = f"{TUNE}.grid={{{RATE}:{RATES}}}"
    found = plan(*typed, grid, f"{TUNE}.grow=2")
    return Tuning.of(found, process, RunStore(tmp_path))


INSIDE, BETWEEN = 0.0105, math.sqrt(0.01 * 0.02)


def train(tuning, best=lambda point: INSIDE, diverging=()):
    """Write results for all planned trials, without training.

    Args:
        best: a function that returns the best learning rate of a point.
        diverging: the arms and rates that diverge with every seed but the first.
    """
    freeze(tuning.trials, tuning.store, {})
    for point in tuning.trials.points:
        run, rate = tuning.store.run(point.run), point.values[RATE]
        if run.status().state is not State.NEW:
            continue
        if (point.arm, rate) in diverging and point.seed != 1000:
            run.claim({}).finish(Cause.NAN, "loss")
            continue
        loss = 1 + abs(math.log(rate / best(point))) + 0.01 * point.seed
        finish(run, {"validation": {"validation/loss": loss}, "steps": 1})


def settle(tuning, *trained):
    """Train and advance until the tuning is decided."""
    while not tuning.advance():
        train(tuning, *trained)


def tried_rates(tuning):
    """Return the learning rates that were tried in each arm."""
    found = {}
    for point in tuning.trials.points:
        found.setdefault(point.arm, set()).add(point.values[RATE])
    return found


def rate_of(tuning, point):
    """Return the learning rate of a judged point."""
    return tuning.judged.runs[point.run].config["optimizer"]["learning_rate"]


def chosen(tuning):
    """Return the learning rate of the last judged point of each arm."""
    return {point.arm: rate_of(tuning, point) for point in tuning.judged.points}


ARMS = ("standard", "fixed", "matched", "collaborative")
FIRST = {*RATES}


def test_inside_the_range_nothing_grows_and_the_two_best_are_tried_with_a_second_seed(
    tuning,
):
    assert tuning.judged is None
    train(tuning)
    assert not tuning.advance()
    tried = {(p.arm, p.values[RATE], p.seed) for p in tuning.trials.points}
    first = {*product(ARMS, FIRST, [1000])}
    assert tried == first | {*product(ARMS, (0.01, 0.02), [1001])}
    train(tuning)
    assert tuning.advance()
    assert not any(point.alternative_to for point in tuning.judged.points)
    for before, after in zip(tuning.plan.points, tuning.judged.points, strict=True):
        own = tuning.plan.runs[before.run].config["optimizer"]
        made = tuning.judged.runs[after.run].config["optimizer"]
        assert made == own | {"learning_rate": 0.01}


def test_the_next_best_takes_the_place_of_a_value_that_diverges_with_a_further_seed(
    tuning,
):
    both = product(["collaborative"], [0.01, 0.02])
    diverging = {("standard", 0.01), *both}
    settle(tuning, lambda point: INSIDE, diverging)
    other = {"standard": 0.02, "collaborative": 0.005}
    assert chosen(tuning) == dict.fromkeys(ARMS, 0.01) | other


def places(tuning, arm):
    """Return the settings of the tried points of an arm, and those of its judged points."""
    return (
        {*map(setting, points(plan, arm=arm))}
        for plan in (tuning.trials, tuning.judged)
    )


def test_where_the_ends_of_an_arm_differ_every_point_of_it_has_its_own_choice(
    tuning, process
):
    def best(point):
        small = point.values.get("model.embedding_size") != 128
        return INSIDE if small or point.values["model.heads"] == 8 else 2 * INSIDE

    settle(tuning, best)
    for arm in ARMS:
        tried, judged = places(tuning, arm)
        assert (tried == judged) is (arm != "fixed")
        assert tried <= judged
    for point in tuning.judged.points:
        rate = 0.01 if best(point) == INSIDE else 0.02
        assert rate_of(tuning, point) == rate
    # A repeated command chooses the same values.
    again = Tuning.of(tuning.plan, process, tuning.store)
    assert again.judged.as_data() == tuning.judged.as_data()


def test_points_between_the_ends_have_the_alternatives_of_the_nearer_one(tuning):
    def best(point):
        largest = point.values.get("model.embedding_size") == 128
        return INSIDE if largest else BETWEEN

    settle(tuning, best)
    own = points(tuning.judged, arm="standard")
    unsure = [point.alternative_to for point in own if point.alternative_to]
    heads = [values["model.heads"] for values in unsure]
    assert {values["model.embedding_size"] for values in unsure} == {64}
    assert sorted(heads) == [2, 4, 8, 16]  # the smaller half of nine points
    seeds = Counter((p.arm, p.values[RATE]) for p in tuning.trials.points)
    assert (seeds["standard", 0.01], seeds["standard", 0.005]) == (3 + 2, 2)


def test_a_point_is_judged_with_both_rates_that_trials_cannot_tell_apart(tuning):
    settle(tuning, lambda point: BETWEEN)
    rates = {}
    for point in tuning.judged.points:
        rate, chosen = rate_of(tuning, point), point.alternative_to is None
        of = point.values if chosen else point.alternative_to
        rates.setdefault((point.arm, str(of)), []).append(rate)
        # Only the values of the alternative contain the rate.
        assert point.values.get(RATE) == (None if chosen else rate)
    assert len(rates) == len(tuning.plan.points)
    assert all(sorted(both) == [0.01, 0.02] for both in rates.values())


def test_where_one_arm_is_at_an_end_all_try_one_value_more(tuning):
    def best(point):
        return 0.041 if point.arm == "collaborative" else INSIDE

    train(tuning, best)
    assert not tuning.advance()
    assert tried_rates(tuning) == dict.fromkeys(ARMS, FIRST | {0.04})
    settle(tuning, best)
    assert tried_rates(tuning) == dict.fromkeys(ARMS, FIRST | {0.04, 0.08})
    assert chosen(tuning) == dict.fromkeys(ARMS, 0.01) | {"collaborative": 0.04}
    [told] = tuning.judged.as_data()["experiments"].values()
    assert [choice["at_end"] for choice in told["tuning"]] == [[]] * 6
    assert told["tune"]["grid"] == {RATE: [0.005, 0.01, 0.02, 0.04, 0.08]}


def test_a_range_grows_no_further_than_it_may_and_the_end_is_said(tuning):
    settle(tuning, lambda point: 9.0 if point.arm == "standard" else INSIDE)
    assert tried_rates(tuning) == dict.fromkeys(ARMS, FIRST | {0.04, 0.08})
    [made] = tuning.judged.tuning.values()
    at_end = Counter(choice["arm"] for choice in made if choice["at_end"] == [RATE])
    tried, judged = places(tuning, "standard")
    assert at_end["standard"] == len(judged)
    # Every point is tried, since the best rate is an end of its range.
    assert tried == judged


def test_the_cost_of_each_arm_is_told_before_and_at_most(tuning):
    [line] = tuning.budgets()
    for arm, count in zip(ARMS, (10, 10, 5, 5), strict=True):
        assert re.search(rf"{arm} {count} trials \(\d+%\)", line), line
    assert "in total 20 trials (" in line  # fewer than the sum, since arms share points
    assert "; at most 108 trials (" in line
