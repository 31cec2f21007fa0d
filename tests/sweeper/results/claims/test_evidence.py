"""The evidence on claims: missing, diverged and odd values, costs, and verdicts in words."""

import random
from dataclasses import replace
from math import inf, nan

import numpy as np
import pytest

from sweeper.results.collect import collect
from sweeper.results.design import Contrast, with_alternatives
from sweeper.results.judge import check_decidable, decidable, lines, verdicts_on
from sweeper.results.points import Point
from sweeper.results.verdict import Decision, Found, Verdict
from sweeper.store.errors import UserError
from sweeper.store.runs import RunStore
from tests.sweeper.results.claims.test_claims import (
    BEATS,
    HALF,
    IMPROVES,
    N_MINUS_1,
    OPEN,
    SAVES,
    SUPPORTED,
    WINS,
    WORSENS,
    answers,
    figure,
    generous,
    verdicts,
)
from tests.sweeper.results.synthetic import (
    FEW,
    METRIC,
    Model,
    Sweep,
    edited,
    figure1,
    finetuned,
    flat,
    margin,
    theorem1,
)


def most_heads(sweep):
    """Return the id of the fixed arm's run with the most heads, which no other arm uses."""
    return [point["run"] for point in sweep.points if point["arm"] == "fixed"][-1]


@pytest.mark.parametrize(
    ("pretrainings", "expected"), [(1, OPEN), (2, OPEN), (5, SUPPORTED)]
)
def test_fine_tuning_seeds_alone_support_nothing(pretrainings, expected):
    sweep = finetuned(seeds=5, claims=[IMPROVES], pretrainings=pretrainings)
    found = verdicts_on(sweep.table())
    measures = [verdict.measure for verdict in found]
    assert measures == ["SQuAD F1", "SQuAD exact match", "MNLI accuracy (%)"]
    for verdict in found:
        assert verdict.verdict == expected
        only = "nothing about other pre-trainings" in verdict.sentence
        assert only == (pretrainings == 1)


def test_runs_that_are_still_to_come_leave_what_is_there():
    sweep = figure(generous, seeds=7, done=lambda arm, model, seed: seed < 5)
    assert set(answers(sweep).values()) == {SUPPORTED}


DIVERGED = {"test/loss": 1.0}
"""The metrics of a run whose perplexity was not a number."""


def test_a_pre_training_that_diverged_leaves_claims_on_its_fine_tunings_undecided(
    tmp_path,
):
    sweep = finetuned(
        seeds=5,
        pretrainings=5,
        claims=[IMPROVES],
        done=lambda task, heads, seed: (heads, seed) != (32, 4),
    )
    sweep.write(tmp_path)
    [diverged, *_] = [run for run in sweep.records if run not in sweep.results]
    assert diverged.startswith("pretraining")
    RunStore(tmp_path).run(diverged).claim({}).finish("nan")
    for verdict in verdicts_on(*collect(tmp_path)):
        assert verdict.verdict == OPEN
        assert "1 run of the claim failed or diverged" in verdict.sentence


def test_nothing_is_bought_for_a_claim_that_no_seed_can_decide():
    sweep = figure(generous, seeds=2, claims=[IMPROVES])
    [question] = decidable(sweep.table())
    assert question.next_seeds(30)
    sweep.results[most_heads(sweep)]["metrics"] = DIVERGED
    table = sweep.table()
    [question] = decidable(table)
    assert question.next_seeds(30) == {}
    [verdict] = verdicts_on(table)
    assert "price" not in verdict.numbers


def test_alternatives_are_judged_where_the_contrast_is_largest_and_smallest():
    means = {"a": 1, "a2": 2, "b": 5, "b2": 3, "c": 4, "c2": nan, "d": 6, "d2": 7}
    a, b, unmeasured, cancelled = (
        Point("fixed", name, {}, alternatives=[Point("fixed", f"{name}2", {})])
        for name in "abcd"
    )
    weights = [(1.0, a), (-1.0, b), (1.0, unmeasured)]
    weights += [(1.0, cancelled), (-1.0, cancelled)]
    found = with_alternatives(Contrast("", weights), lambda point: means[point.name])
    named = [[point.name for _, point in extreme] for extreme in found.extremes]
    # A verdict needs all alternatives measured, so the one without a mean is chosen.
    assert named == [["a2", "b2", "c2", "d", "d"], ["a", "b", "c2", "d", "d"]]


@pytest.mark.parametrize("seeds", [1, 2])
def test_too_few_seeds_decide_nothing(seeds):
    told = f"Every point needs at least 3 seeds; one has {seeds}."
    for verdict in verdicts(figure(generous, seeds=seeds)).values():
        assert verdict.verdict == OPEN
        assert told in verdict.sentence
        assert "in sight" not in verdict.sentence


def test_a_claim_that_the_points_cannot_decide_is_refused():
    check_decidable(figure(generous).table())
    needed = r"at least three values of model\.heads, not 1"
    with pytest.raises(UserError, match=needed) as told:
        check_decidable(figure(generous, FEW).table())
    assert f"{WORSENS}: No two points with different" in str(told.value)
    assert "'experiment.claims=[small_beats_large]' to the command." in str(told.value)


def test_a_round_has_the_next_seed_of_every_point_of_undecided_claims():
    def asked(truth, seeds):
        sweep = figure1(truth, seeds=seeds, claims=[IMPROVES])
        [question] = decidable(sweep.table())
        return question

    # Nothing is decided with fewer than three seeds.
    for seeds, following in ((1, 3), (2, 3), (5, 6)):
        question = asked(flat, seeds)
        of_arm = [one for one in question.evidence.every if one.arm == "fixed"]
        firsts = [next(iter(point.runs.values())) for point in of_arm]
        assert question.next_seeds(11) == dict.fromkeys(firsts, following)
    assert not question.next_seeds(5)
    assert not asked(generous, 5).next_seeds(11)


def test_a_price_is_what_decides_if_estimates_and_spreads_stay():
    sweep = figure1(flat, seeds=5, claims=[IMPROVES], margin=margin("2 %"))
    table = sweep.table()
    [asked] = decidable(table)
    price = asked.price()
    assert price.seeds > 5
    assert price.runs == (price.seeds - 5) * len(asked.used)
    assert price.hours == pytest.approx(price.runs * 12.5 / 3600)
    [on_four_devices] = decidable(edited(table, devices=4))
    assert on_four_devices.price().hours == pytest.approx(4 * price.hours)
    assert asked._decided_with(price.seeds)
    assert not asked._decided_with(price.seeds - 1)
    assert 5 < replace(asked, error=0.2).price().seeds < price.seeds


def test_lines_are_narrow_and_cannot_disturb_a_terminal():
    verdict = Verdict(
        "claim\x1b[2J", Decision.SUPPORTED, "a \x1b[31m\u202e b\n" * 40, {}
    )
    printed = lines([verdict], width=80)
    assert max(map(len, printed)) <= 80
    assert lines([verdict], width=300) == lines([verdict])
    assert all(line.isprintable() for line in printed)


RATIO = "log ratio"


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        ((1.04, 0.475, 1.61), "better by 1.04 [0.47, 1.61]"),
        ((-203.1, -300.0, -100.0), "worse by 203 [100, 300]"),
        ((0.038, -631.0, 631.0), "better by 0.04 [-631, 631]"),
        ((23, -0.3, 58), "better by 23 [-0.3, 58]"),
        ((-1.42e-14, -inf, inf), "no different [no interval]"),
        ((0.0, -1e-15, 1e-15), "no different"),
        ((*np.log([1.013, 1.009, 1.017]), RATIO), "better by 1.30 % [0.90, 1.70]"),
        (
            (*np.log([7000, 5000, 9000]), RATIO),
            "better by a factor of 7,000 [5,000, 9,000]",
        ),
        ((800.0, -inf, inf, RATIO), "better by a factor of 1.01e+304 [no interval]"),
    ],
)
def test_a_difference_is_as_exact_as_its_interval(ends, words):
    assert str(Found("it", *ends)) == f"it {words}"


def test_a_difference_of_rounding_has_the_size_zero():
    assert Found("it", 5.05e-14, -inf, inf).size() == "0 [no interval]"


LUCK = random.Random(7)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (
            lambda run: 43.0 + 1e-12 * len(run),
            "differ by the same amount for every seed",
        ),
        (lambda run: LUCK.choice([33.0, 61.0]) + LUCK.gauss(0, 0.3), "bimodal"),
    ],
    ids=["differences of rounding", "bimodal"],
)
def test_odd_data_decide_nothing_and_are_named(value, told):
    claims = [WORSENS, IMPROVES, BEATS, WINS, SAVES]
    sweep = figure(generous, seeds=7, claims=claims)
    for run, result in sweep.results.items():
        result["metrics"][sweep.metric] = value(run)
    for verdict in verdicts(sweep).values():
        assert verdict.verdict == OPEN
        assert told in verdict.sentence


UNDEFINED = "per cent are undefined for values of 0 or less, which 1 run"


@pytest.mark.parametrize(
    ("metrics", "told"),
    [
        (DIVERGED, "1 run of the claim failed or diverged"),
        ({METRIC: 1e6}, ""),
        ({METRIC: 7.8e153}, ""),
        ({METRIC: -41.0}, UNDEFINED),
        ({METRIC: 0.0}, UNDEFINED),
    ],
)
def test_one_odd_seed_decides_nothing_of_its_arm_and_changes_no_other(metrics, told):
    sweep = figure(generous, claims=[WORSENS, IMPROVES, SAVES])
    sweep.results[most_heads(sweep)]["metrics"] = metrics
    found = verdicts(sweep)
    assert found[WORSENS].verdict == SUPPORTED
    assert found[IMPROVES].verdict == found[SAVES].verdict == OPEN
    assert told in found[IMPROVES].sentence


def test_an_error_of_exactly_zero_counts_as_the_least_that_is_told_apart():
    def found(error):
        sweep = theorem1(seeds=7)
        for result in sweep.results.values():
            if result["metrics"][sweep.metric] < 1e-6:
                result["metrics"][sweep.metric] = error
        return answers(sweep)

    assert found(0.0) == found(1e-12) == dict.fromkeys([N_MINUS_1, HALF], SUPPORTED)


@pytest.mark.parametrize(("size", "found"), [("10 %", SUPPORTED), (0.01, OPEN)])
def test_a_margin_keeps_the_scale_of_the_thresholds(size, found):
    sweep = theorem1(seeds=7)
    sweep.margin = margin(size, sweep.metric)
    assert answers(sweep) == dict.fromkeys([N_MINUS_1, HALF], found)
    if found == OPEN:
        with pytest.raises(UserError, match="write the margin in per cent"):
            check_decidable(sweep.table())


def test_a_claim_whose_sides_are_the_same_runs_is_no_question():
    sweep = Sweep(claims=["fixed_size_beats_heuristic"])
    for arm in ("standard", "fixed"):
        sweep.add(arm, Model(64, 2, 32), [40.1, 39.8, 40.3, 39.9])
    table = sweep.table()
    [verdict] = verdicts_on(table)
    assert verdict.verdict is OPEN
    same = "Both sides of the comparison are the same runs: "
    assert verdict.sentence.startswith(same)
    with pytest.raises(UserError, match="claims that its points cannot decide"):
        check_decidable(table)
