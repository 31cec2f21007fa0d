"""Scores of any program are judged by the rule that judges the claims of a sweep."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from sweeper.__main__ import main
from sweeper.results.judge import verdicts_on
from sweeper.results.scores import MOST_ROWS, exit_code, judge_scores, table_with_claims
from sweeper.results.table import MixedCode, write_table
from sweeper.results.verdict import Decision
from sweeper.store.errors import UserError
from sweeper.store.registry import ROOT
from tests.sweeper.results.synthetic import figure1, finetuned

SUPPORTED, NOT, SAME, OPEN = Decision


def scores(*effects, seeds=6, own=0.05, **columns):
    """Return scores of arm a of about 10, and of arms b, c and so on that differ by `effects`.

    The arms share their seeds.
    """
    draw = np.random.default_rng(7)
    of_seed = draw.normal(0, 0.3, seeds)
    rows = [
        (arm, seed, 10 + effect + of_seed[seed] + draw.normal(0, own))
        for arm, effect in zip("abc", (0.0, *effects), strict=False)
        for seed in range(seeds)
    ]
    return pd.DataFrame(rows, columns=["arm", "seed", "value"]).assign(**columns)


def judged(table, **options):
    """Return the verdicts on scores of which lower ones are better by default."""
    return judge_scores(table, **{"better": "lower", **options})


def by_metric(effect, *metrics, **columns):
    """Return the same scores for each of several metrics."""
    return pd.concat([scores(effect, metric=one, **columns) for one in metrics])


def test_each_arm_is_compared_with_the_baseline_by_pairs():
    table = scores(-0.6, 0.6)
    b, c = judged(table, margin="1%")
    assert (b.claim, b.verdict) == ("b", SUPPORTED)
    assert (c.claim, c.verdict) == ("c", NOT)
    [first] = b.numbers["contrasts"]
    assert first["low"] < np.log(10 / 9.4) < first["high"]
    assert b.numbers["claims"] == 2
    assert exit_code([b, c]) == 0


def test_higher_can_be_better_and_any_arm_the_baseline():
    table = scores(0.6)
    [up] = judged(table, better="higher")
    [down] = judged(table, better="higher", baseline="b")
    assert (up.verdict, down.verdict) == (SUPPORTED, NOT)
    assert exit_code([down]) == 1


def test_an_arm_may_be_called_none():
    table = scores(-0.6)
    [verdict] = judged(table.assign(arm=table["arm"].replace("b", "None")))
    assert (verdict.claim, verdict.verdict) == ("None", SUPPORTED)


def test_equal_arms_differ_by_less_than_the_margin_and_two_seeds_decide_nothing():
    table = scores(0.0, seeds=9)
    [same] = judged(table, margin="0.5")
    assert same.verdict is SAME
    spaced = table.assign(arm=table["arm"].replace("b", "b ", regex=False))
    assert judged(spaced, margin=0.5) == [same]
    [few] = judged(scores(-0.6, seeds=2))
    assert few.verdict is OPEN
    assert exit_code([few]) == 3


def test_history_lends_the_spread_between_seeds():
    table = scores(-0.25, seeds=3)
    earlier = [scores(0.2, seeds=5, comparison=n) for n in range(4)]
    [alone] = judged(table)
    [helped] = judged(table, history=pd.concat(earlier))
    assert alone.verdict is OPEN
    assert helped.verdict is SUPPORTED
    with pytest.raises(UserError, match="no metric in common"):
        judged(table, history=table.assign(metric="other"))
    again = pd.concat([*earlier, table.assign(comparison="mine")[1:]])
    with pytest.raises(UserError, match="also has 2 scores of the arm a"):
        judged(table, history=again)


def test_metrics_share_the_error_and_costs_stand_beside_the_effect():
    table = by_metric(-0.6, "loss", "error", seconds=100.0, flops=1e15)
    table.loc[table["arm"] == "b", "seconds"] = 120.0
    found = judged(table)
    assert [one.measure for one in found] == ["loss", "error"]
    [alone] = judged(scores(-0.6))
    shared, whole = (one.numbers["contrasts"][0]["low"] for one in (found[0], alone))
    assert shared < whole
    assert "at 1.00 x the FLOPs and 1.20 x the seconds. " in found[0].sentence


GOOD = scores(1.0).astype(str)
FIRST = GOOD["arm"] == "a"
JOINED = {"arm": np.where(FIRST, "x", "x y"), "point": np.where(FIRST, "y z", "z")}
WRONG = {
    "no arm": (GOOD.drop(columns="arm"), "but lack 'arm'"),
    "one arm": (GOOD[FIRST], "have only one arm, a"),
    "twice": (pd.concat([GOOD, GOOD[:1]]), "a has two rows with seed=0"),
    "nan": (GOOD.assign(value="nan"), "value='nan' in row 1"),
    "text": (GOOD.assign(value=["fast", *GOOD["value"][1:]]), "value='fast' in row 1"),
    "no cost": (GOOD.assign(seconds="0"), "seconds='0' in row 1"),
    "one joined name": (GOOD.assign(**JOINED), "have the same name, because"),
    "none": (GOOD[:0], "have no rows"),
    "no table": ([1.0, 2.0], "are a list; pass a pandas DataFrame"),
    "large": (pd.DataFrame({"arm": ["a"] * (MOST_ROWS + 1)}), "more than 10,000 rows"),
}


@pytest.mark.parametrize("name", WRONG)
def test_scores_that_cannot_be_judged_are_one_sentence(name):
    table, words = WRONG[name]
    with pytest.raises(UserError, match=words):
        judged(table)


CODE = MixedCode({"a1": 10, "b2": 20}, ["models/x.py"])
IMPROVES = ["fixed_keeps_improving"]
TABLES = {
    "trained": lambda: figure1().table(),
    "mixed code": lambda: replace(figure1().table(), code=CODE),
    "one pre-training": lambda: finetuned("fig2", seeds=5, claims=IMPROVES).table(),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_that_a_sweep_wrote_has_the_verdicts_of_its_page(name, tmp_path):
    table = TABLES[name]()
    kept = table_with_claims(write_table(tmp_path, table))
    expected, judged = (
        [(one.claim, one.verdict, one.measure) for one in verdicts_on(each)]
        for each in (table, kept)
    )
    assert judged == expected
    decided = any(verdict is SUPPORTED for _, verdict, _ in expected)
    assert decided == (name == "trained")


def test_language_models_are_compared_with_n_gram_models(capsys):
    kept = ROOT / "docs/results/night/bottleneck-local-night-novels.csv"
    assert main(["judge", str(kept)]) == 0
    assert "All models are between bigram and trigram." in capsys.readouterr().out


def test_each_metric_may_go_its_own_way():
    table = by_metric(0.6, "loss", "accuracy")
    loss, accuracy = judged(table, better="loss=lower,accuracy=higher")
    assert loss.verdict is NOT
    assert accuracy.verdict is SUPPORTED
    with pytest.raises(UserError, match="expected lower or higher for accuracy"):
        judged(table, better="loss=lower")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda table: table[:-1],
            "are used only for the spread and the costs: 1.",
        ),
        (
            lambda table: table.assign(seed=range(12)),
            "The arms have 6 and 6 rows; the comparison does not pair them by seed.",
        ),
    ],
    ids=["one row", "all rows"],
)
def test_rows_without_a_partner_are_named(change, words):
    table = scores(0.6)
    [found] = judged(change(table))
    assert words in found.sentence


def test_the_command_prints_verdicts_and_tells_by_its_exit_code(tmp_path, capsys):
    path = tmp_path / "scores.csv"
    scores(-0.6).to_csv(path, index=False)
    command = ["judge", str(path), "--better", "lower"]
    path.with_suffix(".json").touch()  # as beside the table of a sweep
    assert main(["judge", str(path), "--margin", "1%"]) == 2
    assert "--margin=1%: expected no such option" in capsys.readouterr().err
    path.with_suffix(".json").unlink()
    assert main([*command, "--margin", "1%"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("b, value: supported\n    Arm b over a better by 6.")
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["claim"] == "b"
    assert main(command[:2]) == 2
    assert "add --better lower or --better higher" in capsys.readouterr().err
    path.unlink()
    assert main(command) == 2


@pytest.mark.parametrize(
    ("damage", "damaged"),
    [
        (lambda text: f"{text}\n", False),
        (lambda text: text[: len(text) // 2], True),
        (lambda text: text.replace(",", ";"), True),
        (lambda text: f"{text}one,cell\n", True),
    ],
    ids=["an empty line", "cut off", "semicolons", "a short row"],
)
def test_a_damaged_table_is_one_sentence(tmp_path, capsys, damage, damaged):
    path = write_table(tmp_path, figure1().table())
    path.write_text(damage(path.read_text()))
    assert (main(["judge", str(path)]) == 2) == damaged
    assert "Traceback" not in capsys.readouterr().err


def test_seeds_that_are_equal_numbers_are_one_seed():
    table = scores(-0.6)
    spelled = table.assign(seed=table["seed"].astype(str))
    spelled.loc[spelled["arm"] == "b", "seed"] += ".0"
    [found], [expected] = (judged(t) for t in (spelled, table))
    assert found.sentence == expected.sentence
    with pytest.raises(UserError, match="Arm a has two rows with seed=0"):
        judged(pd.concat([table, spelled.assign(seed=" 0.0")]))


def test_the_first_arm_of_the_file_is_the_baseline_of_every_metric():
    loss, error = (scores(-0.6, metric=one) for one in ("loss", "error"))
    found = judged(pd.concat([loss, error[::-1]]))
    assert [one.claim for one in found] == ["b", "b"]


def test_right_and_wrong_answers_are_scores():
    table = scores(1.0, seeds=60, own=1.0)
    [found] = judged(table.assign(value=table["value"] > 10.5), better="higher")
    assert found.verdict is SUPPORTED


def test_rows_with_more_cells_than_the_header_are_refused(tmp_path, capsys):
    path = tmp_path / "scores.csv"
    path.write_text("arm,seed,value\na,0,3.2,600.1\nb,0,3.1,610.0\n")
    assert main(["judge", str(path), "--better", "lower"]) == 2
    assert "more cells than its header" in capsys.readouterr().err


def test_neither_the_order_of_rows_nor_names_of_seeds_count():
    """Each seed adds an interim analysis, so the order of seeds may change a verdict."""
    table = scores(-0.05, seeds=14, own=0.1)
    named = table.assign(seed="seed" + table["seed"].astype(str))
    first, *others = (
        judged(one, baseline="a")[0].numbers["contrasts"]
        for one in (table, named, table.sort_values("value"), named[::-1])
    )
    assert others == [first] * 3
