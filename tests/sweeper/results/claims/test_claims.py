"""A verdict follows the data whichever way they fall, and is never better than they are."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from sweeper.results.claims.evidence.verdict import Decision
from sweeper.results.collect import collect, write_tables
from sweeper.results.judge import judge
from sweeper.store.registry import CLAIMS, names
from tests.sweeper.results.claims.asked import (
    BEATS,
    HALF,
    IMPROVES,
    LARGER,
    N_MINUS_1,
    NOT,
    OPEN,
    SAME,
    SUPPORTED,
    WORSENS,
    answers,
    figure,
    generous,
    stingy,
    verdicts,
)
from tests.sweeper.results.claims.test_claims_on_size import LONGER, SAVES, SMALL_LOSE, WINS
from tests.sweeper.results.grids import Grid, Knee, theorem1
from tests.sweeper.results.synthetic import Model, Sweep, Truth, contrary, flat

WORLDS = {
    "the paper is right": (generous, (SUPPORTED, SUPPORTED, SUPPORTED)),
    "the paper is wrong": (contrary, (NOT, NOT, NOT)),
    "nothing matters": (flat, (OPEN, OPEN, OPEN)),
    "the embedding alone matters": (stingy, (OPEN, OPEN, NOT)),
}


@pytest.mark.parametrize(("truth", "expected"), WORLDS.values(), ids=WORLDS.keys())
def test_the_verdict_is_the_truth(
    tmp_path: Path, truth: Truth, expected: tuple[Decision, ...]
) -> None:
    found = answers(figure(truth), tmp_path)
    assert (found[WORSENS], found[IMPROVES], found[BEATS]) == expected


def test_every_claim_that_exists_is_tested_here() -> None:
    elsewhere = [SAVES, WINS, SMALL_LOSE, LONGER]  # test_claims_on_size.py
    elsewhere += ["wins_grow_with_scale"]  # test_scaling.py, beside the figures
    every = [WORSENS, IMPROVES, BEATS, LARGER, N_MINUS_1, HALF, *elsewhere]
    assert names(CLAIMS) == sorted(every)


@pytest.mark.parametrize(
    ("truth", "expected"),
    [
        (lambda model: 60.0 - model.head_size, SUPPORTED),
        (lambda model: 60.0 + model.head_size, NOT),
        (lambda model: 60.0 - min(model.head_size, 7), OPEN),
        (flat, OPEN),
    ],
    ids=["better", "worse", "no further", "alike"],
)
def test_larger_heads_are_judged_by_all_of_their_curve(
    tmp_path: Path, truth: Truth, expected: Decision
) -> None:
    sweep = Sweep(claims=[LARGER], labels={"fixed": "fixed"})
    for head_size in (3, 7, 13, 29):
        draw = random.Random(head_size)
        measured = {seed: truth(Model(64, 4, head_size)) + draw.gauss(0, 0.01) for seed in range(5)}
        model = Model(64, 4, head_size)
        sweep.add("fixed", {"model.head_size": head_size}, model, measured)
    found = verdicts(sweep, tmp_path)[LARGER]
    assert found.verdict == expected
    assert "rom 3 to 29 head sizes" in found.sentence
    assert "still from 7 to 29" in found.sentence


def test_of_alternatives_the_one_that_decides_is_told_first(tmp_path: Path) -> None:
    def late(model: Model) -> float:
        """A world in which heads of a fixed size hurt until there are eight."""
        return 70.0 if model.head_size == 32 and model.heads < 8 else generous(model)

    found = verdicts(figure(late, Grid((64, 256), (2, 4), (2, 8))), tmp_path)[BEATS]
    assert found.verdict == SUPPORTED
    first, *others = found.sentence.split("; ")
    assert found.brief == first
    assert "better by" in first
    assert others[-1].startswith("2 heads of 32 at embedding size 64 over")
    assert "worse by" in others[-1]


def test_arms_that_differ_less_than_the_margin_are_called_alike(tmp_path: Path) -> None:
    sweep = figure(flat)
    sweep.margin = {sweep.metric: {"size": "3 %", "reason": "No one would mind."}}
    found = verdicts(sweep, tmp_path / "wide")
    assert {verdict.verdict for verdict in found.values()} == {SAME}
    assert "All within 3 %: No one would mind." in found[WORSENS].sentence
    sweep.margin = {sweep.metric: {"size": 0.01, "reason": "Everyone would."}}
    found = verdicts(sweep, tmp_path / "narrow")
    assert {verdict.verdict for verdict in found.values()} == {OPEN}
    assert found[WORSENS].numbers["price"]["seeds"] > 5
    assert "To decide it takes about" in found[WORSENS].sentence


def test_where_higher_is_better_the_same_numbers_say_the_opposite(tmp_path: Path) -> None:
    def mirrored(model: Model) -> float:
        return 100.0 - generous(model)

    loss = answers(figure(mirrored), tmp_path / "loss")
    sweep = figure(mirrored)
    for result in sweep.results.values():
        result["metrics"] = {"test/accuracy": result["metrics"][sweep.metric]}
    sweep.metric = "test/accuracy"
    assert set(answers(sweep, tmp_path / "accuracy").values()) == {SUPPORTED}
    assert loss[IMPROVES] == loss[WORSENS] == NOT


def test_the_strict_form_admits_no_larger_model(tmp_path: Path) -> None:
    """A fixed model that wins only by being larger than the largest standard one does not count."""

    def large_wins(model: Model) -> float:
        return 30.0 if model.size["params_total"] > 7e6 else 60.0 - model.embedding_size / 8

    grid = Grid(fixed_heads=(2, 4, 8, 331))
    assert Model(64, 331, 32).size["params_total"] > 7e6
    found = verdicts(figure(large_wins, grid), tmp_path)[BEATS]
    assert found.verdict == NOT
    assert not any("331" in one["words"] for one in found.numbers["contrasts"])


def test_opposite_findings_at_two_embedding_sizes_refute_a_claim_about_all(tmp_path: Path) -> None:
    def mixed(model: Model) -> float:
        sign = 1 if model.embedding_size == 64 else -1
        return 60.0 + sign * model.heads

    assert answers(figure(mixed), tmp_path)[WORSENS] == NOT


def test_what_else_varies_in_an_arm_is_not_mixed_up(tmp_path: Path) -> None:
    sweep = figure(generous)
    model = Model(64, 4, 21)
    values = {"model.embedding_size": 64, "model.heads": 4, "model.layers": 5}
    sweep.add("standard", values, model, {0: 41.0, 1: 42.0})
    found = verdicts(sweep, tmp_path)[WORSENS]
    assert found.verdict == OPEN
    assert "More varies there than model.heads" in found.sentence


def test_an_arm_that_is_not_there_is_named(tmp_path: Path) -> None:
    sweep = figure(generous)
    sweep.points = [point for point in sweep.points if point["arm"] != "standard"]
    assert "no arm standard" in verdicts(sweep, tmp_path)[WORSENS].sentence


def test_verdicts_are_kept_beside_the_table(tmp_path: Path) -> None:
    figure(generous).write(tmp_path)
    found = judge(tmp_path, write_tables(tmp_path, collect(tmp_path, ["fig1"])))
    [*kept] = json.loads((tmp_path / "tables" / "fig1.claims.json").read_text())["verdicts"]
    assert [entry["verdict"] for entry in kept] == [v.verdict for v in found["fig1"]]
    assert [entry["sentence"] for entry in kept] == [v.sentence for v in found["fig1"]]
    before = (tmp_path / "tables" / "fig1.claims.json").read_bytes()
    judge(tmp_path, write_tables(tmp_path, collect(tmp_path)))
    assert (tmp_path / "tables" / "fig1.claims.json").read_bytes() == before


@pytest.mark.parametrize(
    ("knees", "expected"),
    [
        ((lambda n: n - 1, lambda n: n // 2), (SUPPORTED, SUPPORTED)),
        ((lambda n: n, lambda n: n // 2), (NOT, SUPPORTED)),
        ((lambda n: n - 1, lambda n: n - 1), (SUPPORTED, NOT)),
        ((lambda n: 99, lambda n: 99), (NOT, NOT)),
    ],
    ids=["as derived", "as in the theorem", "a mask changes nothing", "no head suffices"],
)
def test_the_knee_is_where_the_error_collapses(
    tmp_path: Path, knees: tuple[Knee, Knee], expected: tuple[Decision, Decision]
) -> None:
    found = answers(theorem1(*knees, seeds=5), tmp_path)
    assert (found[N_MINUS_1], found[HALF]) == expected
