"""Verdicts follow the data, whether they support a claim, contradict it or leave it open."""

import math
import random
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from sweeper.results.judge import verdicts_on
from sweeper.results.verdict import Decision
from sweeper.store.registry import CLAIMS, names
from tests.sweeper.results.synthetic import (
    Grid,
    Model,
    Sweep,
    figure1,
    flat,
    margin,
    match,
    paper,
    theorem1,
)

WORSENS, IMPROVES, BEATS = (
    "standard_worsens_beyond",
    "fixed_keeps_improving",
    "small_beats_large",
)
LARGER = "larger_heads_improve"
N_MINUS_1, HALF = "bidirectional_takes_n_minus_1", "causal_takes_half"
SAVES, WINS = "saves_parameters", "wins_at_equal_size"
BOTTLENECK, EQUAL = "bottleneck_limits_heads", "equal_sizes_beat_schedules"
SMALL_LOSE, LONGER = (
    "small_heads_lose_at_equal_width",
    "longer_sequences_take_larger_heads",
)
SUPPORTED, NOT, SAME, OPEN = Decision
MARGIN = margin("1 %")


def verdicts(sweep):
    return {verdict.claim: verdict for verdict in verdicts_on(sweep.table())}


def answers(sweep):
    return {claim: one.verdict for claim, one in verdicts(sweep).items()}


def judged(sweep, claim):
    sweep.claims = [claim]
    return verdicts(sweep)[claim]


def why_open(sweep, claim):
    """Return the sentence on a claim that must be undecided."""
    found = judged(sweep, claim)
    assert found.verdict is OPEN
    return found.sentence


def add(sweep, arm, model, value, values=None, matched=None):
    """Add a point with five noisy values. Its settings are the number and the size of heads."""
    varied = {"model.heads": model.heads, "model.head_size": model.head_size}
    noise = random.Random(f"{arm}{model}{values}")
    measured = [value + noise.gauss(0, 0.01) for _ in range(5)]
    sweep.add(arm, model, measured, values or varied, matched)


def of(points, **about):
    """Return a sweep of points, each the arguments of `add` from the arm on."""
    sweep = Sweep(**about)
    for point in points:
        add(sweep, *point)
    return sweep


figure = partial(figure1, seeds=5, noise=0.002)  # a Figure 1 with little noise


def generous(model):
    """Return the paper's perplexity, less a bonus for attention wider than the embedding."""
    bonus = 9.0 if model.heads * model.head_size > model.embedding_size else 0.0
    return paper(model) - bonus


def stingy(model):
    """Return a perplexity that depends on the embedding size alone."""
    return 60.0 - model.embedding_size / 8


WORLDS = {
    "the paper is right": (generous, (SUPPORTED, SUPPORTED, SUPPORTED)),
    "the paper is wrong": (
        lambda model: 40.0 + model.heads * (1 if model.head_size == 32 else -1),
        (NOT, NOT, NOT),
    ),
    "nothing matters": (flat, (OPEN, OPEN, OPEN)),
    "the embedding alone matters": (stingy, (OPEN, OPEN, NOT)),
    "opposite findings": (
        lambda model: 60.0 + model.heads * (1 if model.embedding_size == 64 else -1),
        (NOT, NOT, NOT),
    ),
}


@pytest.mark.parametrize(("truth", "expected"), WORLDS.values(), ids=WORLDS.keys())
def test_the_verdict_is_the_truth(truth, expected):
    found = answers(figure(truth))
    assert (found[WORSENS], found[IMPROVES], found[BEATS]) == expected


def test_every_claim_that_exists_is_tested_here():
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("*.py"))
    assert [name for name in names(CLAIMS) if f'"{name}"' not in tests] == []


@pytest.mark.parametrize(
    ("truth", "expected"),
    [
        (lambda size: 60.0 - size, SUPPORTED),
        (lambda size: 60.0 + size, NOT),
        (lambda size: 60.0 - min(size, 7), OPEN),
        (lambda size: 43.0, OPEN),
    ],
    ids=["better", "worse", "no further", "alike"],
)
def test_larger_heads_are_judged_by_all_of_their_curve(truth, expected):
    sizes = (3, 7, 13, 29)
    sweep = of(("fixed", Model(64, 4, size), truth(size)) for size in sizes)
    found = judged(sweep, LARGER)
    assert found.verdict == expected
    assert "rom 3 to 29 head sizes" in found.sentence
    assert "still from 7 to 29" in found.sentence


def test_arms_that_differ_less_than_the_margin_are_called_alike():
    found = verdicts(figure(flat, margin=margin("3 %")))
    assert {verdict.verdict for verdict in found.values()} == {SAME}
    assert "All within 3 %: No one would mind." in found[WORSENS].sentence
    found = verdicts(figure(flat, margin=margin(0.01)))
    assert {verdict.verdict for verdict in found.values()} == {OPEN}
    assert "a decision needs about" in found[WORSENS].sentence


def test_the_strict_form_admits_no_larger_model():
    """A fixed model does not count if it wins only because it has more parameters."""

    def large_wins(model):
        return 30.0 if model.heads == 331 else stingy(model)

    sweep = figure(large_wins, Grid(fixed_heads=(2, 4, 8, 331)))
    assert judged(sweep, BEATS).verdict == NOT


def test_what_else_varies_in_an_arm_is_not_mixed_up_and_a_missing_arm_is_named():
    sweep = figure(generous)
    values = {
        "model.embedding_size": 64,
        "model.heads": 4,
        "model.attention.name": "latent",
    }
    sweep.add("standard", Model(64, 4, 16), [41.0, 42.0], values)
    found = verdicts(sweep)[WORSENS]
    assert found.verdict == OPEN
    assert "different values of model.heads" in found.sentence
    sweep.points = [point for point in sweep.points if point["arm"] != "standard"]
    assert "no arm standard" in verdicts(sweep)[WORSENS].sentence


@pytest.mark.parametrize(
    ("sizes", "feedforward", "expected"),
    [
        ((32, 16, 8), (211, 211, 211), SUPPORTED),
        ((32, 16, 8), (211, 307, 599), OPEN),
        ((32, 32, 32), (211, 211, 211), OPEN),
    ],
    ids=["heads alone differ", "the feed-forward size too", "the parameters too"],
)
def test_standard_models_are_compared_if_they_differ_in_heads_only(
    sizes, feedforward, expected
):
    sweep = of(
        (
            "standard",
            Model(64, heads, size),
            40.0 + heads,
            {"model.heads": heads, "model.feedforward_size": layer},
        )
        for heads, size, layer in zip((2, 4, 8), sizes, feedforward, strict=True)
    )
    found = judged(sweep, WORSENS)
    assert found.verdict == expected
    if expected is OPEN:
        assert found.sentence == (
            "No two points with different numbers of heads have equal embedding size, number of "
            "parameters and feed-forward size; add such points to the experiment's grid."
        )


@pytest.mark.parametrize(
    ("knees", "expected"),
    [
        ((lambda n: n - 1, lambda n: n // 2), (SUPPORTED, SUPPORTED)),
        ((lambda n: n, lambda n: n // 2), (NOT, SUPPORTED)),
        ((lambda n: n - 1, lambda n: n - 1), (SUPPORTED, NOT)),
        ((lambda n: 99, lambda n: 99), (NOT, NOT)),
    ],
    ids=["as derived", "as in the theorem", "a mask changes nothing", "no knee"],
)
def test_the_knee_is_where_the_error_collapses(knees, expected):
    found = answers(theorem1(*knees, seeds=7))
    assert (found[N_MINUS_1], found[HALF]) == expected


def law(fixed_factor):
    """Return a power law of the loss. Heads of size 29 need `fixed_factor` times the parameters."""

    def perplexity(model):
        factor = fixed_factor if model.head_size == 29 else 1
        return math.exp(40 * (model.size["params_total"] / factor) ** -0.2)

    return perplexity


@pytest.mark.parametrize(
    ("factor", "expected"),
    [(0.8, SUPPORTED), (1.25, NOT), (1.0, OPEN)],
)
def test_parameters_are_saved_where_the_truth_takes_fewer(factor, expected):
    sweep = figure(law(factor), Grid(head_size=29))
    assert judged(sweep, SAVES).verdict == expected


@pytest.mark.parametrize(
    ("points", "expected", "first"),
    [
        ([(64, 2, 37, 6), (64, 4, 39), (64, 8, 40)], SUPPORTED, "4 heads over 8 "),
        (
            [
                (64, 4, 41),
                (64, 8, 40),
                (96, 4, 41, 6),
                (96, 8, 38, 6),
                (128, 4, 30),
                (128, 8, 33),
            ],
            NOT,
            "4 heads over 8 at embedding size 64",
        ),
    ],
    ids=["one of several holds", "one of all fails"],
)
def test_the_contrast_that_decides_is_named_before_a_larger_uncertain_one(
    points, expected, first
):
    """A point is an embedding size, a number of heads, a mean and a spread of 0.1 or more."""
    sweep = Sweep()
    for width, heads, mean, *wide in points:
        rng = random.Random(f"{width}{heads}")
        spread = wide[0] if wide else 0.1
        measured = [mean + spread * rng.gauss(0, 1) for _ in range(8)]
        values = {"model.embedding_size": width, "model.heads": heads}
        sweep.add("standard", Model(width, heads, width // heads), measured, values)
    found = judged(sweep, WORSENS)
    assert found.verdict == expected
    assert found.effect.startswith(first)


@pytest.mark.parametrize(
    ("claim", "arms", "words"),
    [  # by arm, the models as embedding size, heads, head size
        (
            LARGER,
            {"fixed": [(64, 13, 3), (64, 7, 5), (64, 3, 11)]},
            "only in model.head_size, but these also differ in model.heads",
        ),
        (
            IMPROVES,
            {"fixed": [(61, 3, 5), (67, 7, 5), (71, 13, 5)]},
            "only in model.heads, but these also differ in model.embedding_size",
        ),
        (
            BOTTLENECK,
            {"large": [(64, 3, 31), (64, 7, 31)], "small": [(64, 4, 16), (64, 8, 8)]},
            "only in model.heads, but these also differ in model.head_size",
        ),
        (
            SMALL_LOSE,
            {"wide": [(64, 2, 21), (67, 3, 14)]},
            "Models of width 42 differ in total",
        ),
    ],
)
def test_a_claim_on_one_size_is_not_judged_where_another_changes_with_it(
    claim, arms, words
):
    sweep = of(
        (arm, Model(*sizes), 40.0 - place)
        for arm, models in arms.items()
        for place, sizes in enumerate(models)
    )
    assert words in why_open(sweep, claim)


@pytest.mark.parametrize(("spread", "known"), [(1.0, True), (90.0, False)])
def test_an_interval_wider_than_percentages_can_differ_is_none(spread, known):
    about = {"metric": "test/accuracy", "noise": 0.02 * spread}
    found = judged(figure1(lambda model: 0.5, seeds=4, **about), IMPROVES)
    assert found.verdict == OPEN
    assert ("[no interval]" not in found.effect) == known


def test_parameters_are_saved_of_a_loss_only():
    assert "metric that is a loss" in why_open(figure1(metric="test/accuracy"), SAVES)


@pytest.mark.parametrize(
    ("bonus", "expected"),
    [(3.0, SUPPORTED), (-3.0, NOT), (0.0, OPEN)],
)
def test_matched_points_are_compared_with_what_they_are_matched_to(bonus, expected):
    def truth(model):
        return 43.0 - (bonus if model.head_size == 32 else 0)

    sweep = figure(truth)
    # The arm `other` is in no pair, so the verdict must not name the count that it matches.
    other = match("7,000", "flops_per_token")
    add(sweep, "other", Model(67, 5, 3), 43.0, matched=other)
    found = judged(sweep, WINS)
    assert found.verdict == expected
    pairs = (
        "ver 2 pairs with total parameters equal within 1.93 %, matched over standard"
    )
    assert pairs in found.sentence
    [contrast] = found.numbers["contrasts"]
    assert contrast["value"] == pytest.approx(math.log(43 / (43 - bonus)), abs=0.004)


def test_a_point_that_is_the_run_it_is_matched_to_is_no_pair():
    sweep = Sweep()
    same = Model(64, 2, 32)
    sweep.add("fixed", same, [40.0, 41.0])
    sweep.add("standard", same, [40.0, 41.0], matched=match("fixed heads=2"))
    assert "No other arm has runs of its own" in why_open(sweep, WINS)


@pytest.mark.parametrize(
    ("truth", "expected"),
    [
        (lambda width, size: 40 + 20 / size + size / 10, SUPPORTED),
        (lambda width, size: 40 + size, NOT),
        (lambda width, size: 40.0, OPEN),
        (lambda width, size: 70 + (size if width == 32 else -size), NOT),
    ],
    ids=["small heads lose", "small heads win", "alike", "at one width only"],
)
def test_small_heads_are_judged_at_each_width(truth, expected):
    sweep = of(
        (arm, Model(32, heads, width // heads), truth(width, width // heads))
        for arm, width in (("narrow", 32), ("wide", 128))
        for heads in (2, 4, 8, 16)
    )
    found = judged(sweep, SMALL_LOSE)
    assert found.verdict == expected
    widths = {one["words"].split()[-1] for one in found.numbers["contrasts"]}
    assert widths == {"32", "128"}


@pytest.mark.parametrize(
    ("truth", "lengths", "expected"),
    [
        (lambda n, size: -min(size, n / 2), (5, 23), SUPPORTED),
        (lambda n, size: -min(size, 30 / n), (5, 23), NOT),
        (lambda n, size: 0.0, (5, 23), OPEN),
        (lambda n, size: -size, (5,), OPEN),
    ],
    ids=["a knee at n / 2", "an earlier knee", "no gain at any n", "one length"],
)
def test_the_gain_of_larger_heads_is_compared_between_lengths(truth, lengths, expected):
    # Longer contexts are better by themselves, which must not count.
    points = (
        (
            "heads",
            Model(64, n, size),
            60 - n + truth(n, size),
            {"task.sequence_length": n, "model.head_size": size},
        )
        for n, size in product(lengths, (1, 3, 11))
    )
    found = judged(of(points, metric="test/loss"), LONGER)
    assert found.verdict == expected
    compared = "rom heads of 1 to 11 at n = 23"
    assert (compared if 23 in lengths else "two sequence lengths") in found.sentence


@pytest.mark.parametrize(
    ("gains", "expected"),
    [((1, 2, 5), SUPPORTED), ((5, 5, 1), NOT), ((3, 5, 3), NOT), ((3, 3, 3), OPEN)],
    ids=["large gain more", "small gain more", "one size does", "alike"],
)
def test_what_more_heads_are_worth_is_compared_between_their_sizes(gains, expected):
    # Larger heads are better by themselves, which must not count.
    sweep = of(
        (arm, Model(64, heads, size), (60 - size) * heads ** (-gain / 100))
        for arm, size, gain in zip(
            ("least", "small", "large"), (4, 8, 32), gains, strict=True
        )
        for heads in (2, 4, 16)
    )
    found = judged(sweep, BOTTLENECK)
    assert found.verdict == expected
    assert (
        "rom 2 to 16 heads with heads of 32, and not with heads of 4" in found.sentence
    )
    differences = [one["value"] for one in found.numbers["contrasts"]]
    truths = [(gains[2] - gain) / 100 * math.log(16 / 2) for gain in gains[:2]]
    assert differences == pytest.approx(truths, abs=0.003)


@pytest.mark.parametrize(
    ("rising", "falling", "expected"),
    [(41.0, 43.0, SUPPORTED), (41.0, 39.0, NOT), (40.0, 40.0, SAME)],
    ids=["equal is best", "one schedule is better", "alike"],
)
def test_one_size_in_all_layers_is_compared_with_schedules(rising, falling, expected):
    # More heads are better. The names of the arms make their runs differ.
    sweep = of(
        (
            (arm, Model(64, heads, 8), truth - heads, named(arm, heads=heads))
            for arm, truth in (("equal", 40), ("rising", rising), ("falling", falling))
            for heads in (3, 5)
        ),
        margin=MARGIN,
    )
    add(sweep, "rising", Model(64, 3, 99), 3.0, {"model.heads": 3, "x": 1})
    found = judged(sweep, EQUAL)
    assert found.verdict == expected
    assert "Not used: 1 point, because models of equal and of" in found.sentence
    # What contradicts the claim is named first.
    assert ("over falling sizes worse by" in found.effect) == (expected == NOT)
    sweep.points = [
        p for p in sweep.points if p["arm"] == "equal" or "x" in p["values"]
    ]
    assert "No model of the arm rising has as many heads" in why_open(sweep, EQUAL)


def test_without_a_standard_arm_the_rival_is_the_one_that_is_matched():
    sweep = Sweep()
    for size in (3, 5):
        values = {"model.head_size": size}
        to_keys = match(f"keys head_size={size}")
        add(sweep, "keys", Model(64, 3, size), 41.0, values)
        add(sweep, "values", Model(64, 2, size), 43.0, values, to_keys)
    found = judged(sweep, WINS)
    assert found.verdict == SUPPORTED
    assert "keys over values" in found.sentence
    add(sweep, "both", Model(64, 7, 3), 42.0, {"model.head_size": 3}, match("7,000"))
    assert judged(sweep, WINS).verdict == SUPPORTED
    add(sweep, "both", Model(64, 7, 5), 42.0, values, to_keys)
    words = "values and both have matched points, but none of these"
    assert words in why_open(sweep, WINS)


TO_STANDARD = match("standard heads=4")


def rounds(first, second, seeds, looks=()):
    """Return the verdict on two arms with these values, after earlier rounds of this many seeds."""
    sweep = Sweep(claims=[WINS], error=0.2)
    sweep.add("standard", Model(64, 4, 16), first[:seeds])
    sweep.add("fixed", Model(64, 8, 16), second[:seeds], matched=TO_STANDARD)
    firsts = [sweep.points[0]["run"], sweep.points[seeds]["run"]]
    looked = [{"seeds_judged": dict.fromkeys(firsts, look)} for look in looks]
    table = replace(sweep.table(), provenance={"rounds": looked})
    [verdict] = verdicts_on(table)
    return verdict


@pytest.mark.parametrize(
    ("seeds", "looks", "expected"),
    [(5, [], OPEN), (8, [5], NOT), (12, [5, 8], NOT), (12, [5], OPEN)],
)
def test_an_answer_of_an_earlier_round_stays(seeds, looks, expected):
    luck = random.Random(328)
    arms = [[luck.gauss(mean, 1) for _ in range(12)] for mean in (30, 30.7)]
    assert rounds(*arms, seeds, looks).verdict is expected


def test_intervals_that_lie_apart_decide_nothing():
    """The first three seeds were lucky. Later seeds cannot make the intersection non-empty."""
    first = [40.0, 40.1, 39.9, *[40.0 + 0.01 * seed for seed in range(17)]]
    second = [30.0, 30.11, 29.91, *[50.0 + 0.013 * seed for seed in range(17)]]
    assert rounds(first, second, 3).verdict is SUPPORTED
    found = rounds(first, second, 20, [3])
    assert found.verdict is OPEN
    assert "intervals of different interim analyses do not overlap" in found.sentence
    assert "price" not in found.numbers
    [one] = found.numbers["contrasts"]
    assert one["low"] < one["value"] < one["high"]


@pytest.mark.parametrize(
    ("mean", "expected"), [(27.0, SUPPORTED), (30.0, OPEN), (33.0, OPEN)]
)
def test_a_claim_has_a_verdict_only_if_it_has_it_with_either_rate(mean, expected):
    """Trials cannot tell two rates of the fixed arm apart. With the chosen rate, the arm wins."""
    eight = {"model.heads": 8}
    points = (
        ("standard", Model(64, 4, 16), 30.0, {"model.heads": 4}),
        ("fixed", Model(64, 8, 16), 27.0, eight, TO_STANDARD),
        (
            "fixed",
            Model(64, 8, 17),
            mean,
            {**eight, "optimizer.learning_rate": 0.02},
            TO_STANDARD,
        ),
    )
    sweep = of(points, claims=[WINS])
    for point in sweep.points[-5:]:
        point["alternative_to"] = eight
    table = sweep.table()
    [verdict] = verdicts_on(table)
    assert verdict.verdict is expected
    assert ("depends on the learning rate" in verdict.sentence) == (expected is OPEN)
    [contrast] = verdict.numbers["contrasts"]
    assert contrast["low"] < math.log(30 / max(27, mean))
    assert contrast["high"] > math.log(30 / 27)
    [*_, alternative] = table.rows
    assert alternative["point"] == "heads=8 learning_rate=0.02"
    assert alternative["alternative_to"] == "fixed heads=8"


# Claims about modern decoders.
ARMS = {  # the arm that may win, and its rival
    "fixed_size_beats_heuristic": ("fixed", "standard"),
    "shared_keys_win": ("shared", "own"),
    "latent_beats_shared_keys": ("latent", "shared"),
    "thin_keys_lose": ("full", "thin"),
}
GAINS = {
    "rotary_costs_small_heads": ("rotary", "sinusoidal"),
    "norm_undoes_larger_heads": ("plain", "normed"),
}


class Cached(Model):
    """A model with a KV cache."""

    @property
    def size(self):
        kept = 4 * self.heads * self.head_size
        return {**super().size, "cache_bytes_per_token": kept}


def named(arm, **sizes):
    """Return the settings of a point, with the name of its arm as that of its attention."""
    settings = {f"model.{key}": value for key, value in sizes.items()}
    return {**settings, "model.attention.name": arm}


def two_arms(claim, gain, width=32):
    """Return a sweep of two arms with two models each. The first arm is better by `gain`."""
    winner, rival = ARMS[claim]
    return of(
        (
            (
                arm,
                Cached(64, heads, own // heads),
                truth - heads,
                named(arm, heads=heads),
            )
            for arm, own, truth in ((winner, width, 40 - gain), (rival, 32, 40))
            for heads in (2, 4)
        ),
        margin=MARGIN,
    )


@pytest.mark.parametrize("claim", ARMS)
@pytest.mark.parametrize(
    ("gain", "expected"), [(2.0, SUPPORTED), (-2.0, NOT), (0.0, SAME)]
)
def test_an_arm_is_compared_with_its_rival(claim, gain, expected):
    found = judged(two_arms(claim, gain), claim)
    assert found.verdict == expected
    assert "{} over {} at equal ".format(*ARMS[claim]) in found.sentence.lower()


@pytest.mark.parametrize("claim", ARMS)
def test_arms_of_other_sizes_are_not_compared(claim):
    words = "points of {} and {} differ in ".format(*ARMS[claim])
    assert words in why_open(two_arms(claim, 2.0, width=48), claim).lower()


def gains(claim, first, second):
    """Return a sweep in which larger heads gain this much, in per cent per doubling."""
    one, other = GAINS[claim]

    # One arm is better by itself, which must not count.
    return of(
        (
            (
                arm,
                Model(64, 32 // size, size),
                alone * math.exp(-gain / 100 * math.log2(size)),
                named(arm, head_size=size),
            )
            for arm, alone, gain in ((one, 60, first), (other, 53, second))
            for size in (2, 4, 16)
        ),
        margin=MARGIN,
    )


@pytest.mark.parametrize("claim", GAINS)
@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [(4.0, 1.0, SUPPORTED), (1.0, 4.0, NOT), (3.0, 3.0, SAME)],
)
def test_the_gain_of_larger_heads_is_compared_between_arms(
    claim, first, second, expected
):
    found = judged(gains(claim, first, second), claim)
    assert found.verdict == expected
    words = "rom heads of 2 to 16 at width 32 for {}, and not for {}"
    assert words.format(*GAINS[claim]) in found.sentence


@pytest.mark.parametrize("claim", GAINS)
def test_gains_are_compared_at_one_width(claim):
    sweep = gains(claim, 4.0, 1.0)
    add(sweep, GAINS[claim][0], Model(64, 3, 8), 50.0, {"model.head_size": 8})
    words = "Points of {} and {} differ in width".format(*GAINS[claim])
    assert words in why_open(sweep, claim)


def test_a_verdict_counts_the_points_that_its_claim_does_not_use():
    heads = [(64, 2, 32), (64, 4, 16), (64, 8, 8), (96, 8, 12)]
    models = [("standard", Model(*sizes), 40.0 + sizes[1], {}) for sizes in heads]
    found = judged(of(models), WORSENS)
    assert "Not used: 1 point, because no other point has equal" in found.sentence
    assert "Not used" not in judged(of(models[:3]), WORSENS).sentence


def test_a_knee_needs_every_smaller_head_size():
    """Between untried sizes, the error could also collapse."""
    sweep = theorem1()
    sweep.points = [p for p in sweep.points if p["values"]["model.head_size"] != 2]
    found = verdicts(sweep)[N_MINUS_1]
    assert found.verdict == OPEN
    assert "but 2 is missing" in found.sentence
