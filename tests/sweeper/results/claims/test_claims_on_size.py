"""Verdicts on what size buys: parameters saved, heads at equal size, heads against sequences."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from sweeper.results.claims.evidence.verdict import Decision, Verdict
from sweeper.results.judge import verdicts_on
from tests.sweeper.results.grids import Grid, figure1
from tests.sweeper.results.synthetic import Model, Sweep, Truth

SAVES, WINS = "saves_parameters", "wins_at_equal_size"
SMALL_LOSE, LONGER = "small_heads_lose_at_equal_width", "longer_sequences_take_larger_heads"


def judged(sweep: Sweep, claim: str, folder: Path) -> Verdict:
    sweep.claims = [claim]
    [verdict] = verdicts_on(sweep.table(folder))
    return verdict


def repeated(value: float, key: object) -> dict[int, float]:
    """Five seeds of a value with a little noise."""
    return {seed: value + random.Random(f"{key}{seed}").gauss(0, 0.01) for seed in range(5)}


def law(fixed_factor: float) -> Truth:
    """Loss follows one power law; heads of 29 need `fixed_factor` times the parameters."""

    def perplexity(model: Model) -> float:
        size = model.size["params_total"] / (fixed_factor if model.head_size == 29 else 1)
        return math.exp(40 * size**-0.2)

    return perplexity


@pytest.mark.parametrize(
    ("factor", "expected"),
    [(0.8, Decision.SUPPORTED), (1.25, Decision.NOT_SUPPORTED), (1.0, Decision.UNDECIDED)],
    ids=["fewer", "more", "as many"],
)
def test_the_parameters_saved_are_those_of_the_truth(
    tmp_path: Path, factor: float, expected: Decision
) -> None:
    grid = Grid(head_size=29)
    found = judged(figure1(law(factor), grid, seeds=5, noise=0.002), SAVES, tmp_path)
    assert found.verdict == expected
    pattern = r"(-?\d+)% of the parameters saved \[(-?\d+), (-?\d+)\]"
    [[share, low, high], *_] = [map(int, found) for found in re.findall(pattern, found.sentence)]
    assert share == pytest.approx(100 * (1 - factor), abs=6)
    assert low <= share <= high < low + 20
    assert (low >= 0, high <= 0) == (factor < 1, factor > 1)


def test_where_a_curve_may_be_flat_no_share_saved_has_an_interval(tmp_path: Path) -> None:
    found = judged(figure1(law(0.8), Grid(head_size=29), seeds=5, noise=0.2), SAVES, tmp_path)
    assert "of the parameters saved [no interval]" in found.sentence


def test_far_off_its_curve_no_number_of_parameters_is_told(tmp_path: Path) -> None:
    found = judged(figure1(law(6), Grid(head_size=29), seeds=5, noise=0.002), SAVES, tmp_path)
    assert found.verdict == Decision.NOT_SUPPORTED
    assert "more than twice the parameters needed" in found.sentence
    assert "parameters saved" not in found.sentence


def test_parameters_are_saved_of_a_loss_only(tmp_path: Path) -> None:
    sweep = figure1(law(0.8))
    for result in sweep.results.values():
        result["metrics"] = {"test/accuracy": 1 / result["metrics"][sweep.metric]}
    sweep.metric = "test/accuracy"
    found = judged(sweep, SAVES, tmp_path)
    assert found.verdict == Decision.UNDECIDED
    assert "about a loss" in found.sentence


@pytest.mark.parametrize(
    ("bonus", "expected"),
    [(3.0, Decision.SUPPORTED), (-3.0, Decision.NOT_SUPPORTED), (0.0, Decision.UNDECIDED)],
    ids=["better", "worse", "alike"],
)
def test_matched_points_are_compared_with_what_they_are_matched_to(
    tmp_path: Path, bonus: float, expected: Decision
) -> None:
    def truth(model: Model) -> float:
        return 43.0 - (bonus if model.head_size == 32 else 0)

    sweep = figure1(truth, seeds=5, noise=0.002)
    found = judged(sweep, WINS, tmp_path)
    assert found.verdict == expected
    matched = {point["run"][:-3] for point in sweep.points if point["matched"]}
    assert f"ver {len(matched)} pairs of equal size" in found.sentence
    [contrast] = found.numbers["contrasts"]
    assert contrast["value"] == pytest.approx(math.log(43 / (43 - bonus)), abs=0.004)


def test_a_point_that_is_the_run_it_is_matched_to_is_no_pair(tmp_path: Path) -> None:
    sweep = Sweep(labels={"standard": "standard", "fixed": "fixed"})
    same = Model(64, 2, 32)
    sweep.add("fixed", {"model.heads": 2}, same, {0: 40.0, 1: 41.0})
    match = {"to": "fixed heads=2", "count": "params_total", "error": 0.0}
    sweep.add("standard", {"model.heads": 2}, same, {0: 40.0, 1: 41.0}, match)
    found = judged(sweep, WINS, tmp_path)
    assert found.verdict == Decision.UNDECIDED
    assert "is matched to" in found.sentence


def equal_width(truth: Callable[[int, int], float]) -> Sweep:
    """Heads and head sizes at two widths."""
    sweep = Sweep(labels={"narrow": "narrow", "wide": "wide"})
    for arm, width in (("narrow", 32), ("wide", 128)):
        for heads in (2, 4, 8, 16):
            size = width // heads
            values = {"model.heads": heads, "model.head_size": size}
            measured = repeated(truth(width, size), (width, size))
            sweep.add(arm, values, Model(32, heads, size), measured)
    return sweep


@pytest.mark.parametrize(
    ("truth", "expected"),
    [
        (lambda width, size: 40 + 20 / size + size / 10, Decision.SUPPORTED),
        (lambda width, size: 40 + size, Decision.NOT_SUPPORTED),
        (lambda width, size: 40.0, Decision.UNDECIDED),
        (lambda width, size: 70 + (size if width == 32 else -size), Decision.NOT_SUPPORTED),
    ],
    ids=["small heads lose", "small heads win", "alike", "at one width only"],
)
def test_small_heads_are_judged_at_each_width(
    tmp_path: Path, truth: Callable[[int, int], float], expected: Decision
) -> None:
    found = judged(equal_width(truth), SMALL_LOSE, tmp_path)
    assert found.verdict == expected
    assert {one["words"][-3:].strip() for one in found.numbers["contrasts"]} == {"32", "128"}


@pytest.mark.parametrize(
    ("truth", "expected"),
    [
        (lambda n, size: -min(size, n / 2), Decision.SUPPORTED),
        (lambda n, size: -min(size, 30 / n), Decision.NOT_SUPPORTED),
        (lambda n, size: 0.0, Decision.UNDECIDED),
    ],
    ids=["a knee at n / 2", "an earlier knee", "no gain at any n"],
)
def test_the_gain_of_larger_heads_is_compared_between_lengths(
    tmp_path: Path, truth: Callable[[int, int], float], expected: Decision
) -> None:
    sweep = Sweep(labels={"heads": "heads"}, metric="test/loss")
    for n in (5, 23):
        for size in (1, 3, 11):
            values = {"task.sequence_length": n, "model.head_size": size}
            # Longer contexts are better by themselves, which must not count.
            measured = repeated(60 - n + truth(n, size), (n, size))
            sweep.add("heads", values, Model(64, n, size), measured)
    found = judged(sweep, LONGER, tmp_path)
    assert found.verdict == expected
    assert "eads of 11 over 1 at n = 23" in found.sentence


def test_one_length_says_nothing_of_longer_ones(tmp_path: Path) -> None:
    sweep = Sweep(labels={"heads": "heads"})
    for size in (1, 3):
        values = {"task.sequence_length": 5, "model.head_size": size}
        sweep.add("heads", values, Model(64, 5, size), repeated(40 - size, size))
    found = judged(sweep, LONGER, tmp_path)
    assert found.verdict == Decision.UNDECIDED
    assert "two sequence lengths" in found.sentence


def test_without_a_standard_arm_the_rival_is_the_one_that_is_matched(tmp_path: Path) -> None:
    sweep = Sweep(labels={"keys": "keys", "values": "values"})
    for size in (3, 5):
        values = {"model.head_size": size}
        sweep.add("keys", values, Model(64, 3, size), repeated(41.0, size))
        match = {"to": f"keys head_size={size}", "count": "params_total", "error": 0.0}
        sweep.add("values", values, Model(64, 2, size), repeated(43.0, -size), match)
    found = judged(sweep, WINS, tmp_path)
    assert found.verdict == Decision.SUPPORTED
    assert "the other over values" in found.sentence
