"""Claims about decoders of today: each verdict, on data made for it."""

import math

import pytest

from sweeper.results.judge import verdicts_on
from sweeper.results.verdict import Decision
from tests.sweeper.results.synthetic import Model, Sweep

SUPPORTED, NOT, SAME, OPEN = Decision
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
    """A model that keeps its keys and values."""

    @property
    def size(self):
        kept = 4 * self.heads * self.head_size
        return {**super().size, "cache_bytes_per_token": kept}


def judged(sweep, claim, folder):
    sweep.claims = [claim]
    sweep.margin = {sweep.metric: {"size": "1 %", "reason": "No one would mind."}}
    [verdict] = verdicts_on(sweep.table(folder))
    return verdict


def seeds(value, key):
    """Five measurements around a value, the same for the same key."""
    return {seed: value + 0.01 * math.sin(7 * seed + key) for seed in range(5)}


def two_arms(claim, gain, width=32):
    """Each arm has two models of one width; the first arm is better by `gain`."""
    sweep = Sweep(labels={arm: arm for arm in ARMS[claim]})
    for arm, truth in zip(ARMS[claim], (40 - gain, 40), strict=True):
        for heads in (2, 4):
            size = (width if arm == ARMS[claim][0] else 32) // heads
            values = {"model.heads": heads, "model.attention.name": arm}  # so that runs differ
            sweep.add(arm, values, Cached(64, heads, size), seeds(truth - heads, heads))
    return sweep


@pytest.mark.parametrize("claim", ARMS)
@pytest.mark.parametrize(("gain", "expected"), [(2.0, SUPPORTED), (-2.0, NOT), (0.0, SAME)])
def test_an_arm_is_compared_with_its_rival(tmp_path, claim, gain, expected):
    found = judged(two_arms(claim, gain), claim, tmp_path)
    assert found.verdict == expected
    assert "{} over {} at equal ".format(*ARMS[claim]) in found.sentence.lower()


@pytest.mark.parametrize("claim", ARMS)
def test_arms_of_other_sizes_are_not_compared(tmp_path, claim):
    found = judged(two_arms(claim, 2.0, width=48), claim, tmp_path)
    assert found.verdict is OPEN
    assert "points of {} and {} differ in ".format(*ARMS[claim]) in found.sentence.lower()


def gains(claim, first, second, width=32):
    sweep = Sweep(labels={arm: arm for arm in GAINS[claim]})
    for arm, gain in zip(GAINS[claim], (first, second), strict=True):
        for size in (2, 4, 16):
            # One arm is better by itself, which must not count.
            truth = (60 if arm == GAINS[claim][0] else 53) * math.exp(-gain / 100 * math.log2(size))
            values = {"model.head_size": size, "model.attention.name": arm}
            sweep.add(arm, values, Model(64, width // size, size), seeds(truth, size))
    return sweep


@pytest.mark.parametrize("claim", GAINS)
@pytest.mark.parametrize(
    ("first", "second", "expected"), [(4.0, 1.0, SUPPORTED), (1.0, 4.0, NOT), (3.0, 3.0, SAME)]
)
def test_the_gain_of_larger_heads_is_compared_between_arms(
    tmp_path, claim, first, second, expected
):
    found = judged(gains(claim, first, second), claim, tmp_path)
    assert found.verdict == expected
    words = "eads of 16 over 2 at width 32 for {}, and not for {}".format(*GAINS[claim])
    assert words in found.sentence


@pytest.mark.parametrize("claim", GAINS)
def test_gains_are_compared_at_one_width(tmp_path, claim):
    sweep = gains(claim, 4.0, 1.0)
    arm = GAINS[claim][0]
    sweep.add(arm, {"model.head_size": 8}, Model(64, 3, 8), seeds(50.0, 8))
    found = judged(sweep, claim, tmp_path)
    assert found.sentence == "Points of {} and {} differ in width.".format(*GAINS[claim])
