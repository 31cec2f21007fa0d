"""Tables are exported exactly, without formulas; trials choose by the validation split alone."""

import csv
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from sweeper.results.choices import choices, diverged, settled
from sweeper.results.remarks import tuned_in_words
from sweeper.results.table import Table, direction, write_table
from sweeper.store.errors import UserError
from sweeper.store.numbers import short
from tests.sweeper.results.synthetic import edited

CELLS = {
    "words": 'heads=8, "quoted"\nand\rmore\0\x1b[31m',
    "whole": 29_384_705,
    "fraction": 0.1 + 0.2,
    "tiny": -1.5e-300,
    "yes": True,
    "nothing": None,
    "run": "1e5",
    "model.name": "1_000",
    "test/loss": "nan",
    "arm": "true",
}


def table(rows):
    columns = list(dict.fromkeys(key for row in rows for key in row))
    about = {"metric": "test/loss", "arms": {}}
    return Table("fig1", about, {}, {}, columns, rows)


def cells(path):
    """Return the lines of a .csv, as Python's module csv reads them."""
    with path.open(newline="") as file:
        return list(csv.reader(file))


def test_every_cell_is_there_as_text_that_says_it_exactly(tmp_path):
    path = write_table(tmp_path, table([CELLS, {"arm": "\ud800"}]))
    heads, line, half_a_letter = cells(path)
    told = CELLS | {"yes": "true", "nothing": ""}
    assert dict(zip(heads, line, strict=True)) == {k: str(v) for k, v in told.items()}
    assert float(line[heads.index("fraction")]) == 0.1 + 0.2
    assert half_a_letter[-1] == "\\ud800"
    assert pd.read_csv(path)["whole"][0] == 29_384_705


@pytest.mark.parametrize(
    "text", ["=cmd()", "+1", "-rf", "@SUM(A1)", "\tx", "\rx", "'quoted", "-5"]
)
def test_words_that_look_like_a_formula_are_marked_as_text(tmp_path, text):
    given = table([{"arm": text, "model.name": text, text: 7}])
    path = write_table(tmp_path, given)
    heads, line = cells(path)
    assert [heads[2], *line[:2]] == [f"'{text}"] * 3


RATE, LOSS = "optimizer.learning_rate", "validation/loss"
DIVERGED = {"state": "failed", "reason": "nan: the training loss is nan (attempt 1)"}


def trials(measured, *, arm="a"):
    """Return the trials of one arm. `measured` maps a learning rate to the losses of its seeds."""
    rows, settings = [], {}
    for rate, losses in measured.items():
        point = f"heads=2 learning_rate={rate}"
        settings[point] = {"model.heads": 2, RATE: rate}
        for seed, loss in enumerate(losses):
            run = {"run": f"{arm}{rate}-s{seed}", "test/loss": rate, LOSS: loss}
            ended = DIVERGED if loss is None else {"state": "done", "reason": ""}
            rows.append({"arm": arm, "point": point, "seed": seed, **run, **ended})
    about = {"metric": LOSS, "arms": {"a": {}}, "tune": {"grid": {RATE: []}}}
    return replace(table(rows), experiment=about, settings=settings)


def chosen(measured):
    [choice] = choices(trials(measured))
    return choice


def test_the_least_loss_on_the_validation_split_is_chosen_and_its_trials_are_named():
    choice = chosen({0.1: [3.0], 0.2: [2.0], 0.4: [2.5]})
    assert (choice.arm, choice.setting) == ("a", {"model.heads": 2})
    assert (choice.values, choice.among) == ({RATE: 0.2}, 3)
    assert choice.best == ["a0.2-s0"]
    assert choice.trials == ["a0.2-s0", "a0.4-s0", "a0.1-s0"]


def test_a_value_that_diverged_for_any_seed_is_worse_than_all_others():
    found = trials({0.1: [9.0, 9.0], 0.2: [1.0, None]})
    assert settled(found)
    assert [diverged(row) for row in found.rows] == [False, False, False, True]
    [choice] = choices(found)
    assert choice.values == {RATE: 0.1}
    told = r"all trials of a point diverged, for example .*; set other values in experiment\.tune"
    with pytest.raises(UserError, match=told):
        choices(trials({0.1: [None], 0.2: [None]}))


@pytest.mark.parametrize("task", ["mlm", "nsp"])
def test_trials_of_a_pre_training_can_choose_by_each_of_its_tasks(task):
    assert direction(f"validation/{task}_accuracy") == 1
    assert direction(f"test/{task}_loss") == -1


def test_a_trial_that_is_not_done_or_never_validated_decides_nothing():
    found = trials({0.1: [3.0], 0.2: [2.0]})
    assert not settled(edited(found, state="new"))
    with pytest.raises(UserError, match="was trained without validation/loss"):
        choices(edited(found, **{LOSS: None}))


def test_of_the_two_best_by_the_first_seed_the_better_mean_is_chosen():
    choice = chosen({0.1: [2.1, 2.1, 2.1], 0.2: [2.0, 2.4, 2.3], 0.4: [2.2]})
    assert choice.values == {RATE: 0.1}
    assert choice.best == ["a0.1-s0", "a0.1-s1", "a0.1-s2"]
    assert choice.difference == pytest.approx(0.4 / 3)
    one_left = chosen({0.1: [2.1, 2.1, 2.1], 0.2: [2.0, None, 2.3], 0.4: [2.2]})
    assert (one_left.values, one_left.alternative) == ({RATE: 0.1}, None)


def test_a_value_that_trials_cannot_tell_from_the_chosen_one_is_an_alternative():
    alike = chosen({0.1: [2.1, 2.2, 2.4], 0.2: [2.0, 2.4, 2.1], 0.4: [9.0]})
    assert (alike.values, alike.alternative) == ({RATE: 0.2}, {RATE: 0.1})
    # Seeds differ far more than the values do, but by the same amount for both values.
    paired = chosen({0.1: [2.1, 3.1, 5.11], 0.2: [2.0, 3.0, 5.0]})
    apart = np.array([0.1, 0.1, 0.11])
    half = stats.t.ppf(0.975, 2) * apart.std(ddof=1) / math.sqrt(3)
    assert (paired.values, paired.alternative) == ({RATE: 0.2}, None)
    assert (paired.difference, paired.error) == pytest.approx((apart.mean(), half))


@pytest.mark.parametrize(
    "measured",
    [{0.1: [3.0], 0.2: [2.0]}, {0.1: [3.0, 7.8e153], 0.2: [2.0, 2.1]}],
    ids=["one seed", "a finite number that diverged"],
)
def test_without_a_known_spread_no_value_is_an_alternative(measured):
    choice = chosen(measured)
    assert (choice.alternative, choice.error) == (None, None)


def test_the_error_of_a_choice_is_that_of_claims_over_all_settings():
    one = trials({0.1: [2.1, 2.1, 2.2], 0.2: [2.0, 2.0, 2.0]})
    other = trials({0.1: [4.0, 4.0, 4.3], 0.2: [4.0, 4.1, 4.0]}, arm="b")
    both = choices(replace(one, rows=[*one.rows, *other.rows]))
    differences = [[0.1, 0.1, 0.2], [0.0, -0.1, 0.3]]
    narrow, wide = np.var(differences, axis=1, ddof=1)
    table = (narrow + wide) / 2  # worth the two degrees that a setting lacks
    moderated = ((narrow + table) / 2, 4), (wide, 2 + 2 * table / wide)
    errors = [stats.t.ppf(0.975, df) * math.sqrt(own / 3) for own, df in moderated]
    assert [choice.error for choice in both] == pytest.approx(errors)
    assert all(choice.alternative for choice in both)


def test_the_words_say_what_was_chosen_among_how_many_and_what_is_open():
    made = {
        "arm": "standard",
        "values": {RATE: 0.1},
        "among": 3,
        "best": ["r1", "r2"],
        "at_end": [],
        "alternative": None,
        "error": 0.0123,
    }
    at_end = {
        "values": {RATE: 0.4},
        "at_end": [RATE],
        "alternative": {RATE: 0.2},
        "best": ["r1", "r2", "r3"],
    }
    tuning = [made, made | at_end, made | {"arm": "fixed"}]
    assert tuned_in_words({"tuning": tuning}) == [
        "Learning rate: tuning tried 3 values, and the best two with 2 to 3 seeds. By the "
        "validation split, it chose: standard 0.1 to 0.4; fixed 0.1.",
        "At an end of the tried range, so a value beyond it may be better: standard 0.4.",
        "1 of 3 choices cannot be distinguished from the next best value, so a verdict must hold "
        "with both.",
    ]
    assert tuned_in_words({"title": "of another experiment"}) == []


@pytest.mark.parametrize(
    ("value", "digits", "told"),
    [
        (2.8e11, 2, "280G"),
        (0.0123, 2, "0.012"),
        (999_999, 4, "1M"),
        (13_124_567, 4, "13.12M"),
        (9999.6, 4, "10k"),
        (0, 2, "0"),
    ],
)
def test_a_number_of_few_digits_has_no_exponent(value, digits, told):
    assert short(value, digits) == told
