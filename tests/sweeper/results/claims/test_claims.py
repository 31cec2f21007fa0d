"""A verdict follows the data whichever way they fall, and is never better than they are."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from sweeper.results.claims.evidence.verdict import Answer, Verdict
from sweeper.results.collect import write_tables
from sweeper.results.judge import judge, verdicts_on
from sweeper.store.registry import CLAIMS, names
from tests.sweeper.results.claims.test_claims_on_size import LONGER, SAVES, SMALL_LOSE, WINS
from tests.sweeper.results.contexts import Knee, theorem1
from tests.sweeper.results.finetuned import finetuned
from tests.sweeper.results.grids import FEW, Grid, figure1
from tests.sweeper.results.synthetic import Model, Sweep, Truth, contrary, flat, paper

WORSENS, IMPROVES, BEATS = "standard_worsens_beyond", "fixed_keeps_improving", "small_beats_large"
LARGER = "larger_heads_improve"
N_MINUS_1, HALF = "bidirectional_takes_n_minus_1", "causal_takes_half"


def verdicts(sweep: Sweep, folder: Path) -> dict[str, Verdict]:
    return {verdict.claim: verdict for verdict in verdicts_on(sweep.table(folder))}


def generous(model: Model) -> float:
    """A world in which heads of size 32 are worth more than any embedding."""
    bonus = 9.0 if model.heads * model.head_size > model.embedding_size else 0.0
    return paper(model) - bonus


def stingy(model: Model) -> float:
    """A world in which only the embedding counts."""
    return 60.0 - model.embedding_size / 8


WORLDS = {
    "the paper is right": (
        generous,
        {WORSENS: Answer.SUPPORTED, IMPROVES: Answer.SUPPORTED, BEATS: Answer.SUPPORTED},
    ),
    "the paper is wrong": (
        contrary,
        {
            WORSENS: Answer.NOT_SUPPORTED,
            IMPROVES: Answer.NOT_SUPPORTED,
            BEATS: Answer.NOT_SUPPORTED,
        },
    ),
    "nothing matters": (
        flat,
        {WORSENS: Answer.UNDECIDED, IMPROVES: Answer.UNDECIDED, BEATS: Answer.UNDECIDED},
    ),
    "the embedding alone matters": (
        stingy,
        {WORSENS: Answer.UNDECIDED, IMPROVES: Answer.UNDECIDED, BEATS: Answer.NOT_SUPPORTED},
    ),
}


@pytest.mark.parametrize(("truth", "expected"), WORLDS.values(), ids=WORLDS.keys())
def test_the_verdict_is_the_truth(
    tmp_path: Path, truth: Truth, expected: dict[str, Answer]
) -> None:
    found = verdicts(figure1(truth), tmp_path)
    assert {claim: verdict.verdict for claim, verdict in found.items()} == expected


def test_every_claim_that_exists_is_tested_here() -> None:
    elsewhere = [SAVES, WINS, SMALL_LOSE, LONGER]  # test_claims_on_size.py
    every = [WORSENS, IMPROVES, BEATS, LARGER, N_MINUS_1, HALF, *elsewhere]
    assert names(CLAIMS) == sorted(every)


@pytest.mark.parametrize(
    ("truth", "expected"),
    [
        (lambda model: 60.0 - model.head_size, Answer.SUPPORTED),
        (lambda model: 60.0 + model.head_size, Answer.NOT_SUPPORTED),
        (lambda model: 60.0 - min(model.head_size, 7), Answer.UNDECIDED),
        (flat, Answer.UNDECIDED),
    ],
    ids=["better", "worse", "no further", "alike"],
)
def test_larger_heads_are_judged_by_what_they_do(
    tmp_path: Path, truth: Truth, expected: Answer
) -> None:
    sweep = Sweep(claims=[LARGER], labels={"fixed": "fixed"})
    for head_size in (3, 7, 13, 29):
        model = Model(64, 4, head_size)
        noise = {seed: 0.01 * random.Random(head_size + 97 * seed).gauss() for seed in range(3)}
        measured = {seed: truth(model) + noise[seed] for seed in noise}
        sweep.add("fixed", {"model.head_size": head_size}, model, measured)
    found = verdicts(sweep, tmp_path)[LARGER]
    assert found.verdict == expected
    assert "with heads of 3 to" in found.sentence
    assert found.numbers["head_size"] == [3, 7, 13, 29]


def test_a_fine_tuned_experiment_is_judged_by_each_measure_it_shows(tmp_path: Path) -> None:
    table = finetuned(tmp_path, "table2a", seeds=3, about={"claims": [IMPROVES]})
    found = verdicts_on(table)
    assert [v.measure for v in found] == ["SQuAD F1", "SQuAD exact match", "MNLI accuracy (%)"]
    assert {verdict.verdict for verdict in found} == {Answer.SUPPORTED}
    assert "F1 goes from 72.17 with 8 heads to 78.17 with 32 heads" in found[0].sentence


def test_noise_is_not_taken_for_a_finding(tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    for world in range(40):
        sweep = figure1(flat, Grid((64, 96), (2, 4, 8), (2, 4, 8, 16)))
        noise = random.Random(world)
        for result in sweep.results.values():
            result["metrics"][sweep.metric] = noise.gauss(43.0, 0.4)
        for verdict in verdicts(sweep, tmp_path / str(world)).values():
            counts[verdict.verdict] += 1
    assert counts.total() == 120
    assert counts[Answer.SUPPORTED] + counts[Answer.NOT_SUPPORTED] <= 6  # 5 %


MISSING: dict[str, tuple[Callable[[str, Model, int], bool], dict[str, bool]]] = {
    "one standard run": (
        lambda arm, model, seed: (
            (arm, model.embedding_size, model.heads, seed) != ("standard", 96, 16, 2)
        ),
        {WORSENS: True, IMPROVES: False, BEATS: True},
    ),
    "all fixed runs": (
        lambda arm, model, seed: arm != "fixed",
        {WORSENS: False, IMPROVES: True, BEATS: True},
    ),
    "one seed of the matched": (
        lambda arm, model, seed: arm != "matched" or seed != 1,
        {WORSENS: False, IMPROVES: False, BEATS: True},
    ),
    "everything": (
        lambda arm, model, seed: False,
        {WORSENS: True, IMPROVES: True, BEATS: True},
    ),
}


@pytest.mark.parametrize(("done", "affected"), MISSING.values(), ids=MISSING.keys())
def test_a_claim_whose_runs_are_missing_is_undecided_and_says_so(
    tmp_path: Path, done: Callable[[str, Model, int], bool], affected: dict[str, bool]
) -> None:
    for claim, verdict in verdicts(figure1(generous, done=done), tmp_path).items():
        assert ("runs have no test perplexity" in verdict.sentence) == affected[claim]
        expected = Answer.UNDECIDED if affected[claim] else Answer.SUPPORTED
        assert verdict.verdict == expected, claim


def test_one_seed_everywhere_decides_nothing(tmp_path: Path) -> None:
    for verdict in verdicts(figure1(generous, seeds=1), tmp_path).values():
        assert verdict.verdict == Answer.UNDECIDED
        assert "single seed" in verdict.sentence


def test_a_few_points_decide_nothing(tmp_path: Path) -> None:
    found = verdicts(figure1(generous, FEW), tmp_path)
    assert found[WORSENS].verdict == found[IMPROVES].verdict == Answer.UNDECIDED
    assert "one number of heads only" in found[WORSENS].sentence
    assert "three or more numbers of heads" in found[IMPROVES].sentence


def test_points_with_one_seed_use_the_spread_of_those_with_three(tmp_path: Path) -> None:
    """At least three seeds at the ends of an arm are enough to judge all of it."""
    sweep = figure1(generous)
    ends = {2, 16}
    sweep.points = [
        point
        for point in sweep.points
        if point["seed"] == 0 or point["values"]["model.heads"] in ends
    ]
    found = verdicts(sweep, tmp_path)
    assert {verdict.verdict for verdict in found.values()} == {Answer.SUPPORTED}


def test_where_higher_is_better_the_same_numbers_say_the_opposite(tmp_path: Path) -> None:
    def mirrored(model: Model) -> float:
        return 100.0 - generous(model)

    sweep = figure1(mirrored)
    sweep.metric = "test/perplexity"
    loss = verdicts(sweep, tmp_path / "loss")
    sweep = figure1(mirrored)
    for result in sweep.results.values():
        result["metrics"] = {"test/accuracy": result["metrics"][sweep.metric]}
    sweep.metric = "test/accuracy"
    accuracy = verdicts(sweep, tmp_path / "accuracy")
    assert {v.verdict for v in accuracy.values()} == {Answer.SUPPORTED}
    assert loss[IMPROVES].verdict == loss[WORSENS].verdict == Answer.NOT_SUPPORTED


def test_the_strict_form_admits_no_larger_model(tmp_path: Path) -> None:
    """A fixed model that wins only by being larger than the largest standard one does not count."""

    def large_wins(model: Model) -> float:
        return 30.0 if model.size["params_total"] > 7e6 else 60.0 - model.embedding_size / 8

    grid = Grid(fixed_heads=(2, 4, 8, 331))
    assert Model(64, 331, 32).size["params_total"] > 7e6
    found = verdicts(figure1(large_wins, grid), tmp_path)[BEATS]
    assert found.verdict == Answer.NOT_SUPPORTED
    assert 331 not in [entry["model.heads"] for entry in found.numbers["tested"]]


def test_the_smallest_model_that_wins_is_named_with_its_parameters(tmp_path: Path) -> None:
    found = verdicts(figure1(generous), tmp_path)[BEATS]
    rival, chosen = found.numbers["rival"], found.numbers["chosen"]
    winners = [e for e in found.numbers["tested"] if (e["advantage"]["low"] or 0) > 0]
    assert chosen["params_total"] == min(entry["params_total"] for entry in winners)
    assert rival["model.embedding_size"] == 128
    assert f"{chosen['model.heads']} heads of 32" in found.sentence
    assert chosen["params_total"] < rival["params_total"]


def test_numbers_say_where_it_turns(tmp_path: Path) -> None:
    def turns_at_four(model: Model) -> float:
        return 40.0 + 3 * abs(model.heads - 4)

    found = verdicts(figure1(turns_at_four), tmp_path)[WORSENS]
    assert [entry["best_heads"] for entry in found.numbers["sizes"]] == [4, 4, 4]
    assert found.verdict == Answer.SUPPORTED


def test_opposite_findings_at_two_embedding_sizes_decide_nothing(tmp_path: Path) -> None:
    def mixed(model: Model) -> float:
        sign = 1 if model.embedding_size == 64 else -1
        return 60.0 + sign * model.heads

    found = verdicts(figure1(mixed), tmp_path)[WORSENS]
    assert found.verdict == Answer.UNDECIDED
    assert {entry["verdict"] for entry in found.numbers["sizes"]} == {
        Answer.SUPPORTED,
        Answer.NOT_SUPPORTED,
    }


def test_a_fixed_arm_that_stops_improving_half_way_is_not_called_improving(tmp_path: Path) -> None:
    def plateau(model: Model) -> float:
        return 50.0 - min(model.heads, 4)

    found = verdicts(figure1(plateau, Grid(fixed_heads=(2, 4, 8, 16))), tmp_path)[IMPROVES]
    assert found.verdict == Answer.UNDECIDED
    assert found.numbers["whole_range"]["low"] > 0


def test_what_else_varies_in_an_arm_is_not_mixed_up(tmp_path: Path) -> None:
    sweep = figure1(generous)
    for layers in (5, 7):
        model = Model(64, 4, 16 + layers)
        values = {"model.embedding_size": 64, "model.heads": 4, "model.layers": layers}
        sweep.add("standard", values, model, {0: 41.0, 1: 42.0})
    found = verdicts(sweep, tmp_path)[WORSENS]
    assert found.verdict == Answer.UNDECIDED
    assert "more varies than heads" in found.sentence


def test_other_arms_can_take_the_roles(tmp_path: Path) -> None:
    sweep = figure1(generous)
    new = {"standard": "a", "fixed": "b", "matched": "c"}
    sweep.labels = {new[arm]: label for arm, label in sweep.labels.items()}
    for point in sweep.points:
        point["arm"] = new[point["arm"]]
    table = sweep.table(tmp_path)
    from sweeper.results.claims.small_beats_large import check

    found = check(table, standard="a", fixed="b", matched="c")
    assert found.verdict == Answer.SUPPORTED
    absent = check(table)
    assert absent.verdict == Answer.UNDECIDED
    assert "no arm standard, fixed" in absent.sentence


def test_verdicts_are_kept_beside_the_table(tmp_path: Path) -> None:
    figure1(generous).write(tmp_path)
    found = judge(tmp_path, write_tables(tmp_path, ["fig1"]))
    [*kept] = json.loads((tmp_path / "tables" / "fig1.claims.json").read_text())["verdicts"]
    assert [entry["verdict"] for entry in kept] == [v.verdict for v in found["fig1"]]
    assert [entry["sentence"] for entry in kept] == [v.sentence for v in found["fig1"]]
    before = (tmp_path / "tables" / "fig1.claims.json").read_bytes()
    judge(tmp_path, write_tables(tmp_path))
    assert (tmp_path / "tables" / "fig1.claims.json").read_bytes() == before


@pytest.mark.parametrize(
    ("knees", "expected"),
    [
        ((lambda n: n - 1, lambda n: n // 2), (Answer.SUPPORTED, Answer.SUPPORTED)),
        ((lambda n: n, lambda n: n // 2), (Answer.NOT_SUPPORTED, Answer.SUPPORTED)),
        ((lambda n: n - 1, lambda n: n - 1), (Answer.SUPPORTED, Answer.NOT_SUPPORTED)),
        ((lambda n: 99, lambda n: 99), (Answer.UNDECIDED, Answer.UNDECIDED)),
    ],
    ids=["as derived", "as in the theorem", "a mask changes nothing", "no head suffices"],
)
def test_the_knee_is_where_the_error_collapses(
    tmp_path: Path, knees: tuple[Knee, Knee], expected: tuple[Answer, Answer]
) -> None:
    found = verdicts(theorem1(*knees), tmp_path)
    assert (found[N_MINUS_1].verdict, found[HALF].verdict) == expected
    measured = [entry["knee"] for entry in found[N_MINUS_1].numbers["lengths"]]
    assert measured == [knees[0](n) if knees[0](n) <= n else None for n in (5, 7)]


def test_a_knee_with_one_seed_is_undecided(tmp_path: Path) -> None:
    for verdict in verdicts(theorem1(seeds=1), tmp_path).values():
        assert verdict.verdict == Answer.UNDECIDED
        assert "single seed" in verdict.sentence
