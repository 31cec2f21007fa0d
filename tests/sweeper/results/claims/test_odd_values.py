"""Values that no mean describes decide nothing, and are named."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sweeper.results.claims.asked import (
    BEATS,
    IMPROVES,
    OPEN,
    SUPPORTED,
    WORSENS,
    answers,
    figure,
    generous,
    most_heads,
    verdicts,
)
from tests.sweeper.results.claims.test_claims_on_size import SAVES, WINS
from tests.sweeper.results.synthetic import Sweep

Spoil = Callable[[Sweep], None]


def set_all(value: Callable[[str], float]) -> Spoil:
    def spoil(sweep: Sweep) -> None:
        for run, result in sweep.results.items():
            result["metrics"][sweep.metric] = value(run)

    return spoil


def set_one(value: float) -> Spoil:
    def spoil(sweep: Sweep) -> None:
        sweep.results[most_heads(sweep)]["metrics"][sweep.metric] = value

    return spoil


def bimodal(sweep: Sweep) -> None:
    draw = random.Random(7)
    for result in sweep.results.values():
        result["metrics"][sweep.metric] = draw.choice([33.0, 61.0]) + draw.gauss(0, 0.3)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (set_all(lambda run: 43.0), "Seeds do not differ at all"),
        (set_all(lambda run: 43.0 + 1e-12 * len(run)), "Seeds do not differ at all"),
        (bimodal, "bimodal"),
    ],
    ids=["all equal", "differences of rounding", "bimodal"],
)
def test_odd_data_decide_nothing_and_are_named(tmp_path: Path, spoil: Spoil, told: str) -> None:
    sweep = figure(generous, seeds=7)
    sweep.claims = [WORSENS, IMPROVES, BEATS, WINS, SAVES]
    spoil(sweep)
    for verdict in verdicts(sweep, tmp_path).values():
        assert verdict.verdict == OPEN
        assert told in verdict.sentence


@pytest.mark.parametrize("value", [1e6, 7.8e153, -41.0, 0.0])
def test_one_odd_seed_decides_nothing_of_its_arm_and_changes_no_other(
    tmp_path: Path, value: float
) -> None:
    sweep = figure(generous)
    sweep.claims = [WORSENS, IMPROVES, SAVES]
    set_one(value)(sweep)
    found = answers(sweep, tmp_path)
    assert found[WORSENS] == SUPPORTED
    assert found[IMPROVES] == found[SAVES] == OPEN
