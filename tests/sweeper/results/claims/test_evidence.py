"""The evidence on claims: missing, diverged and odd values, costs, and verdicts in words."""

import random
from dataclasses import replace
from math import inf, log, nan

import pytest

from sweeper.results.collect import collect
from sweeper.results.design import Contrast, with_alternatives
from sweeper.results.judge import (
    check_decidable,
    decidable,
    lines,
    verdicts_on,
)
from sweeper.results.points import Point
from sweeper.results.verdict import Decision, Found, Verdict
from sweeper.store.errors import UserError
from sweeper.store.runs import RunStore
from tests.sweeper.results.claims.test_claims import (
    BEATS,
    HALF,
    IMPROVES,
    N_MINUS_1,
    NOT,
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
from tests.sweeper.results.finetuned import Finetuned
from tests.sweeper.results.grids import FEW, Grid, figure1, theorem1
from tests.sweeper.results.synthetic import Model, Sweep, flat


def most_heads(sweep: Sweep) -> str:
    """Return the id of the fixed arm's run with the most heads, which no other arm uses."""
    return [str(point["run"]) for point in sweep.points if point["arm"] == "fixed"][-1]


@pytest.mark.parametrize(
    ("pretrainings", "expected"), [(1, OPEN), (2, OPEN), (5, SUPPORTED)]
)
def test_fine_tuning_seeds_alone_support_nothing(tmp_path, pretrainings, expected):
    about = {"claims": [IMPROVES]}
    found = verdicts_on(
        Finetuned(seeds=5, about=about, pretrainings=pretrainings).table(tmp_path)
    )
    assert [v.measure for v in found] == [
        "SQuAD F1",
        "SQuAD exact match",
        "MNLI accuracy (%)",
    ]
    assert {verdict.verdict for verdict in found} == {expected}
    only = [
        "nothing about other pre-trainings" in verdict.sentence for verdict in found
    ]
    assert all(only) if pretrainings == 1 else not any(only)


def test_noise_is_not_taken_for_a_finding(tmp_path):
    wrong = 0
    for world in range(10):
        sweep = figure1(flat, Grid((64, 96), (2, 4, 8), (2, 4, 8, 16)), seeds=5)
        noise = random.Random(world)
        for result in sweep.results.values():
            result["metrics"][sweep.metric] = noise.gauss(43.0, 0.4)
        found = set(answers(sweep, tmp_path / str(world)).values())
        wrong += bool(found & {SUPPORTED, NOT})
    assert wrong <= 1  # 2 or more wrong sweeps of 10 have a chance of 9 %


def test_runs_that_are_still_to_come_leave_what_is_there(tmp_path):
    sweep = figure(generous, seeds=7, done=lambda arm, model, seed: seed < 5)
    assert set(answers(sweep, tmp_path).values()) == {SUPPORTED}


def test_runs_that_diverged_leave_their_claims_undecided_and_no_others(tmp_path):
    sweep = figure(generous)
    sweep.results[most_heads(sweep)]["metrics"] = {
        "test/loss": 1.0
    }  # the perplexity was not a number
    found = verdicts(sweep, tmp_path)
    assert found[WORSENS].verdict == SUPPORTED
    assert found[IMPROVES].verdict == OPEN
    assert "1 run of the claim failed or diverged" in found[IMPROVES].sentence


def test_a_pre_training_that_diverged_leaves_claims_on_its_fine_tunings_undecided(
    tmp_path,
):
    sweep = Finetuned(
        seeds=5,
        pretrainings=5,
        about={"claims": [IMPROVES]},
        done=lambda task, heads, seed: (heads, seed) != (32, 4),
    )
    sweep.table(tmp_path)
    RunStore(tmp_path).run("pretraining-fixed-h32-s4").claim({}).finish("nan")
    for verdict in verdicts_on(*collect(tmp_path)):
        assert verdict.verdict == OPEN
        assert "1 run of the claim failed or diverged" in verdict.sentence


def test_nothing_is_bought_for_a_claim_that_no_seed_can_decide(tmp_path):
    sweep = figure(generous, seeds=2)
    sweep.claims = [IMPROVES]
    [question] = decidable(sweep.table(tmp_path / "before"))
    assert question.next_seeds(30)
    sweep.results[most_heads(sweep)]["metrics"] = {"test/loss": 1.0}
    table = sweep.table(tmp_path / "after")
    [question] = decidable(table)
    assert question.next_seeds(30) == {}
    [verdict] = verdicts_on(table)
    assert "price" not in verdict.numbers


def test_a_value_of_zero_is_no_failure(tmp_path):
    sweep = figure(generous)
    sweep.results[most_heads(sweep)]["metrics"][sweep.metric] = 0.0
    found = verdicts(sweep, tmp_path)[IMPROVES]
    assert found.verdict == OPEN
    assert (
        "Differences in per cent are undefined for values of 0 or less, which 1 run"
        in found.sentence
    )


def test_expected_costs_are_of_all_devices_of_a_run(tmp_path):
    sweep = figure(flat)
    sweep.claims = [IMPROVES]
    table = sweep.table(tmp_path)
    four = replace(table, rows=[{**row, "devices": 4} for row in table.rows])
    (one,), (other,) = (verdicts_on(each) for each in (table, four))
    assert other.numbers["price"]["hours"] == pytest.approx(
        4 * one.numbers["price"]["hours"]
    )


def test_alternatives_are_judged_where_the_contrast_is_largest_and_smallest():
    points = [
        Point("fixed", f"heads={n}", {}, alternatives=[Point("fixed", f"{n}b", {})])
        for n in range(10)
    ]
    every = [own for point in points for own in (point, *point.alternatives)]
    means = {own.name: n % 3 for n, own in enumerate(every)}
    means["3b"] = nan  # not measured
    weights = [(1.0 if n % 2 else -1.0, point) for n, point in enumerate(points[:9])]
    weights += [(1.0, points[9]), (-1.0, points[9])]  # they cancel
    found = with_alternatives(Contrast("", weights), lambda point: means[point.name])
    for best, extreme in zip((max, min), found.extremes, strict=True):
        names = [point.name for _, point in extreme]
        assert names[3] == "3b", "a verdict needs all alternatives measured"
        assert names[9] == names[10]
        for (weight, point), (_, chosen) in zip(weights[:9], extreme, strict=False):
            options = [weight * means[p.name] for p in (point, *point.alternatives)]
            if point is not points[3]:
                assert weight * means[chosen.name] == best(options)


@pytest.mark.parametrize("seeds", [1, 2])
def test_too_few_seeds_decide_nothing(tmp_path, seeds):
    for verdict in verdicts(figure(generous, seeds=seeds), tmp_path).values():
        assert verdict.verdict == OPEN
        assert (
            f"Every point needs at least 3 seeds; one has {seeds}." in verdict.sentence
        )
        assert "in sight" not in verdict.sentence


def test_a_claim_that_the_points_cannot_decide_is_refused(tmp_path):
    table = figure(generous, FEW).table(tmp_path)
    with pytest.raises(
        UserError, match=r"at least three values of model\.heads, not 1"
    ) as told:
        check_decidable(table)
    assert f"{WORSENS}: No two points with different" in str(told.value)
    assert "'experiment.claims=[small_beats_large]'." in str(told.value)
    check_decidable(figure(generous).table(tmp_path / "whole"))


def test_a_round_has_the_next_seed_of_every_point_of_undecided_claims(tmp_path):
    def asked(truth, seeds):
        sweep = figure1(truth, seeds=seeds)
        sweep.claims = [IMPROVES]
        [question] = decidable(sweep.table(tmp_path / f"{truth.__name__} {seeds}"))
        return question

    # Nothing is decided with fewer than three seeds.
    for seeds, following in ((1, 3), (2, 3), (5, 6)):
        question = asked(flat, seeds)
        found = question.next_seeds(11)
        assert found.keys() == {next(iter(p.runs.values())) for p in fixed(question)}
        assert set(found.values()) == {following}
    assert not question.next_seeds(5)
    assert not asked(generous, 5).next_seeds(11)


def fixed(question):
    """Return the points of the arm that the claim uses."""
    return [point for point in question.evidence.every if point.arm == "fixed"]


def test_a_price_is_what_decides_if_estimates_and_spreads_stay(tmp_path):
    sweep = figure1(flat, seeds=5)
    sweep.claims = [IMPROVES]
    sweep.margin = {sweep.metric: {"size": "2 %", "reason": "Less is not seen."}}
    [asked] = decidable(sweep.table(tmp_path))
    price = asked.price()
    assert price
    assert price.seeds
    assert price.seeds > 5
    runs = (price.seeds - 5) * len(asked.used)
    assert price.runs == runs
    assert price.hours == pytest.approx(runs * 12.5 / 3600)
    assert asked._decided_with(price.seeds)
    assert not asked._decided_with(price.seeds - 1)
    narrower = replace(asked, error=0.2).price()
    assert narrower
    assert 5 < (narrower.seeds or 0) < price.seeds


def test_lines_are_narrow_and_cannot_disturb_a_terminal(tmp_path):
    verdict = Verdict(
        "claim\x1b[2J", Decision.SUPPORTED, "a \x1b[31m\u202e b\n" * 40, {}
    )
    printed = lines([verdict], width=80)
    assert max(map(len, printed)) <= 80
    assert all(line.isprintable() for line in printed)


@pytest.mark.parametrize(
    ("ends", "unit", "words"),
    [
        ((1.04, 0.475, 1.61), "metric", "it better by 1.04 [0.47, 1.61]"),
        ((-203.1, -300.0, -100.0), "metric", "it worse by 203 [100, 300]"),
        ((0.038, -631.0, 631.0), "metric", "it better by 0.04 [-631, 631]"),
        ((0.1734, -inf, inf), "metric", "it better by 0.173 [no interval]"),
        ((-1.42e-14, -inf, inf), "metric", "it no different [no interval]"),
        ((0.0, -1e-15, 1e-15), "metric", "it no different"),
        ((2.0, 2.0, 2.0), "metric", "it better by 2.000 [2.000, 2.000]"),
        (
            (log(1.013), log(1.009), log(1.017)),
            "log ratio",
            "it better by 1.30 % [0.90, 1.70]",
        ),
        ((log(1.013), -inf, inf), "log ratio", "it better by 1.3 % [no interval]"),
        (
            (log(7000), log(5000), log(9000)),
            "log ratio",
            "it better by a factor of 7,000 [5,000, 9,000]",
        ),
        (
            (800.0, -inf, inf),
            "log ratio",
            "it better by a factor of 1.01e+304 [no interval]",
        ),
    ],
)
def test_a_difference_is_as_exact_as_its_interval(ends, unit, words):
    assert str(Found("it", *ends, unit)) == words
    assert Found("it", 5.05e-14, -inf, inf).size() == "0 [no interval]", "rounding"
    assert Found("it", 23, -0.3, 58).size() == "23 [-0.3, 58]", "an end keeps its sign"


draw = random.Random(7)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (
            lambda run: 43.0 + 1e-12 * len(run),
            "differ by the same amount for every seed",
        ),  # rounding
        (lambda run: draw.choice([33.0, 61.0]) + draw.gauss(0, 0.3), "bimodal"),
    ],
    ids=["differences of rounding", "bimodal"],
)
def test_odd_data_decide_nothing_and_are_named(tmp_path, value, told):
    sweep = figure(generous, seeds=7)
    sweep.claims = [WORSENS, IMPROVES, BEATS, WINS, SAVES]
    for run, result in sweep.results.items():
        result["metrics"][sweep.metric] = value(run)
    for verdict in verdicts(sweep, tmp_path).values():
        assert verdict.verdict == OPEN
        assert told in verdict.sentence


@pytest.mark.parametrize("value", [1e6, 7.8e153, -41.0, 0.0])
def test_one_odd_seed_decides_nothing_of_its_arm_and_changes_no_other(tmp_path, value):
    sweep = figure(generous)
    sweep.claims = [WORSENS, IMPROVES, SAVES]
    sweep.results[most_heads(sweep)]["metrics"][sweep.metric] = value
    found = answers(sweep, tmp_path)
    assert found[WORSENS] == SUPPORTED
    assert found[IMPROVES] == found[SAVES] == OPEN


def test_an_error_of_exactly_zero_counts_as_the_least_that_is_told_apart(tmp_path):
    def found(error):
        sweep = theorem1(seeds=7)
        for result in sweep.results.values():
            if result["metrics"][sweep.metric] < 1e-6:
                result["metrics"][sweep.metric] = error
        return answers(sweep, tmp_path / str(error))

    assert found(0.0) == found(1e-12) == dict.fromkeys([N_MINUS_1, HALF], SUPPORTED)


def test_a_claim_whose_sides_are_the_same_runs_is_no_question(tmp_path):
    claims = ("fixed_size_beats_heuristic",)
    sweep = Sweep(labels={"standard": "standard", "fixed": "fixed"}, claims=claims)
    for arm in sweep.labels:
        sweep.add(
            arm,
            {"model.heads": 2},
            Model(64, 2, 32),
            {0: 40.1, 1: 39.8, 2: 40.3, 3: 39.9},
        )
    table = sweep.table(tmp_path)
    [verdict] = verdicts_on(table)
    assert verdict.verdict is Decision.UNDECIDED
    assert verdict.sentence.startswith(
        "Both sides of the comparison are the same runs: "
    )
    with pytest.raises(UserError, match="claims that its points cannot decide"):
        check_decidable(table)
