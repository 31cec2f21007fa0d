"""Tests of tuning: which values are tried, and which of them are chosen."""

import math
import re
from collections import Counter
from dataclasses import replace
from itertools import product
from types import MappingProxyType

import pytest

from sweeper.plan.experiment import at_end, beyond
from sweeper.plan.facts import Facts
from sweeper.plan.seeds import with_seeds
from sweeper.stages.train import freeze
from sweeper.stages.tune import Search, Tuning, trials
from sweeper.store.attempts import Cause
from sweeper.store.errors import UserError
from sweeper.store.runs import RunStore, State
from tests.sweeper.conftest import finish
from tests.sweeper.plan.conftest import described

RATE = "optimizer.learning_rate"
TUNE = "experiment.tune"
CPU = "scale=cpu"


@pytest.fixture
def tried(plan, process, tmp_path):
    """Two plans of fig1_tuned: that of the judged runs, and that of the first trials."""
    found = plan("experiment=fig1_tuned", CPU)
    searches = {name: Search.of(one.tune) for name, one in found.experiments.items()}
    return found, trials(found, searches, Facts(process, tmp_path / "facts.json"))


def test_every_choice_has_equally_many_trials_and_otherwise_each_is_what_is_judged(
    tried,
):
    judged, found = tried
    [own] = judged.experiments.values()
    settings = Counter(
        (p.arm, *(item for item in p.values.items() if item[0] != RATE))
        for p in found.points
    )
    assert {*settings.values()} == {3}
    assert {arm for arm, *_ in settings} == set(own.arms)
    assert not {p.seed for p in found.points} & {p.seed for p in judged.points}
    assert not found.runs.keys() & judged.runs.keys()
    configs = {(p.arm, str(p.values)): judged.runs[p.run].config for p in judged.points}
    for point in found.points:
        values = {key: value for key, value in point.values.items() if key != RATE}
        config, own = configs[point.arm, str(values)], found.runs[point.run].config
        # Trials validate only after the last step.
        last = {"validate_every": config["trainer"]["steps"]}
        assert own["trainer"] == {**config["trainer"], **last}
        changed = {"learning_rate": point.values[RATE]}
        assert own["optimizer"] == {**config["optimizer"], **changed}
        for section in ("model", "task", "data"):
            assert own[section] == config[section]


def test_trials_begin_at_the_fewest_and_the_most_parameters_of_each_arm(tried):
    judged, found = tried
    sizes = {}
    for plan in (judged, found):
        for point in plan.points:
            size = plan.runs[point.run].size["params_total"]
            sizes.setdefault((plan is found, point.arm), set()).add(size)
    for arm in ARMS:
        every = sizes[False, arm]
        assert sizes[True, arm] == {min(every), max(every)}
    assert len(found.points) == 3 * (2 + 2 + 1 + 1)


def test_further_seeds_leave_out_those_of_the_trials(plan):
    found = plan("experiment=fig1_tuned", CPU)
    [(name, own)] = found.experiments.items()
    apart = replace(own, tune=replace(own.tune, seeds=[3, 5, 7]))
    [first, *_] = found.points
    more = with_seeds(replace(found, experiments={name: apart}), {first.run: 5})
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
    typed, tuned
):
    experiment, name = described(f"experiment={typed}")
    assert bool(experiment.tune) is tuned
    assert (name == experiment.yaml) is (typed == "fig1 scale=demo")


def test_a_key_that_changes_the_size_of_a_model_is_not_tuned(plan, process, tmp_path):
    found = plan("experiment=fig1_tuned", CPU)
    [(name, own)] = found.experiments.items()
    tune = replace(own.tune, grid={"model.feedforward_size": [8, 16]})
    with pytest.raises(UserError, match="that do not change the size of a model"):
        trials(found, {name: Search.of(tune)}, Facts(process, tmp_path / "facts.json"))


def test_no_trial_starts_for_a_metric_of_which_neither_more_nor_less_is_better(
    plan, process, tmp_path
):
    found = plan("experiment=fig1_tuned", CPU, f"{TUNE}.by=validation/attention_rank")
    with pytest.raises(
        UserError, match="validation/attention_rank: expected a name that ends"
    ):
        Tuning.of(found, process, RunStore(tmp_path))


@pytest.mark.parametrize(
    ("values", "best", "following", "end"),
    [
        ([0.0025, 0.005, 0.01], 0.01, 0.02, True),
        ([0.0025, 0.005, 0.01], 0.0025, 0.00125, True),
        ([0.0025, 0.005, 0.01], 0.005, None, False),
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
    grid = f"{TUNE}.grid={{{RATE}:[0.005,0.01,0.02]}}"
    found = plan(*typed, grid, f"{TUNE}.grow=2")
    return Tuning.of(found, process, RunStore(tmp_path))


def train(tuning, best, diverging=MappingProxyType({})):
    """Write results for all planned trials, without training.

    Args:
        best: the best learning rate of each arm, or a function that returns it for a point.
        diverging: for each arm, the rates that diverge with every seed but the first.
    """
    of = best if callable(best) else lambda point: best[point.arm]
    freeze(tuning.trials, tuning.store, {})
    for point in tuning.trials.points:
        run, rate = tuning.store.run(point.run), point.values[RATE]
        if run.status().state is not State.NEW:
            continue
        if rate in diverging.get(point.arm, ()) and point.seed != 1000:
            run.claim({}).finish(Cause.NAN, "loss")
            continue
        loss = 1 + abs(math.log(rate / of(point))) + 0.01 * point.seed
        finish(run, {"validation": {"validation/loss": loss}, "steps": 1})


def tried_rates(tuning):
    """Return the learning rates that were tried in each arm."""
    found = {}
    for point in tuning.trials.points:
        found.setdefault(point.arm, set()).add(point.values[RATE])
    return found


def judged(tuning):
    """Return the optimizer section of the last judged point of each arm."""
    return {
        p.arm: tuning.judged.runs[p.run].config["optimizer"]
        for p in tuning.judged.points
    }


def settle(tuning, best):
    while not tuning.advance():
        train(tuning, best)


ARMS = ("standard", "fixed", "matched", "collaborative")
FIRST = {0.005, 0.01, 0.02}


def test_inside_the_range_nothing_grows_and_the_two_best_are_tried_with_a_second_seed(
    tuning,
):
    assert tuning.judged is None
    best = dict.fromkeys(ARMS, 0.0105)
    train(tuning, best)
    assert not tuning.advance()
    tried = {(p.arm, p.values[RATE], p.seed) for p in tuning.trials.points}
    first = {*product(ARMS, FIRST, [1000])}
    assert tried == first | {*product(ARMS, (0.01, 0.02), [1001])}
    train(tuning, best)
    assert tuning.advance()
    assert not any(point.alternative_to for point in tuning.judged.points)
    for point in tuning.plan.points:
        before = tuning.plan.runs[point.run].config["optimizer"]
        assert judged(tuning)[point.arm] == {**before, "learning_rate": 0.01}


def test_the_next_best_takes_the_place_of_a_value_that_diverges_with_a_further_seed(
    tuning,
):
    diverging = {"standard": (0.01,), "collaborative": (0.01, 0.02)}
    while not tuning.advance():
        train(tuning, dict.fromkeys(ARMS, 0.0105), diverging)
    rates = {arm: own["learning_rate"] for arm, own in judged(tuning).items()}
    other = {"standard": 0.02, "collaborative": 0.005}
    assert rates == dict.fromkeys(ARMS, 0.01) | other


def places(tuning, arm):
    """Return the settings of the tried points of an arm, and those of its judged points."""
    return (
        {
            str({key: value for key, value in p.values.items() if key != RATE})
            for p in plan.points
            if p.arm == arm
        }
        for plan in (tuning.trials, tuning.judged)
    )


def test_where_the_ends_of_an_arm_differ_every_point_of_it_has_its_own_choice(
    tuning, process
):
    def best(point):
        small = point.values.get("model.embedding_size") != 128
        return 0.0105 if small or point.values["model.heads"] == 8 else 0.021

    settle(tuning, best)
    for arm in ARMS:
        tried, judged = places(tuning, arm)
        assert (tried == judged) is (arm != "fixed")
        assert tried <= judged
    for point in tuning.judged.points:
        rate = tuning.judged.runs[point.run].config["optimizer"]["learning_rate"]
        assert rate == (0.01 if best(point) < 0.02 else 0.02)
    # A repeated command chooses the same values.
    again = Tuning.of(tuning.plan, process, tuning.store)
    assert again.judged.as_data() == tuning.judged.as_data()


def test_points_between_the_ends_have_the_alternatives_of_the_nearer_one(tuning):
    def best(point):
        largest = point.values.get("model.embedding_size") == 128
        return 0.0105 if largest else math.sqrt(0.01 * 0.02)

    settle(tuning, best)
    own = [point for point in tuning.judged.points if point.arm == "standard"]
    unsure = [point.alternative_to for point in own if point.alternative_to]
    heads = [values["model.heads"] for values in unsure]
    assert {values["model.embedding_size"] for values in unsure} == {64}
    assert sorted(heads) == [2, 4, 8, 16]  # the smaller half of nine points
    seeds = Counter((p.arm, p.values[RATE]) for p in tuning.trials.points)
    assert (seeds["standard", 0.01], seeds["standard", 0.005]) == (3 + 2, 2)


def test_a_point_is_judged_with_both_rates_that_trials_cannot_tell_apart(tuning):
    equally_far = math.sqrt(0.01 * 0.02)
    settle(tuning, dict.fromkeys(ARMS, equally_far))
    rates = {}
    for point in tuning.judged.points:
        rate = tuning.judged.runs[point.run].config["optimizer"]["learning_rate"]
        chosen = point.alternative_to is None
        setting = point.values if chosen else point.alternative_to
        rates.setdefault((point.arm, str(setting)), []).append(rate)
        # Only the values of the alternative contain the rate.
        assert point.values.get(RATE) == (None if chosen else rate)
    assert len(rates) == len(tuning.plan.points)
    assert all(sorted(both) == [0.01, 0.02] for both in rates.values())


def test_where_one_arm_is_at_an_end_all_try_one_value_more(tuning):
    best = {**dict.fromkeys(ARMS, 0.0105), "collaborative": 0.041}
    train(tuning, best)
    assert not tuning.advance()
    assert tried_rates(tuning) == dict.fromkeys(ARMS, FIRST | {0.04})
    settle(tuning, best)
    assert tried_rates(tuning) == dict.fromkeys(ARMS, FIRST | {0.04, 0.08})
    chosen = {arm: own["learning_rate"] for arm, own in judged(tuning).items()}
    assert chosen == {**dict.fromkeys(ARMS, 0.01), "collaborative": 0.04}
    [told] = tuning.judged.as_data()["experiments"].values()
    assert [choice["at_end"] for choice in told["tuning"]] == [[]] * 6
    assert told["tune"]["grid"] == {RATE: [0.005, 0.01, 0.02, 0.04, 0.08]}


def test_a_range_grows_no_further_than_it_may_and_the_end_is_said(tuning):
    settle(tuning, {**dict.fromkeys(ARMS, 0.0105), "standard": 9.0})
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
        assert re.search(rf"{arm} {count} trials, \d+%", line), line
    assert "In total 20 trials, " in line  # fewer than the sum, since arms share points
    assert "; at most 108 trials, " in line
