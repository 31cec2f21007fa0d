"""What trials choose, on tables that are made to deserve it."""

from __future__ import annotations

import pytest

from sweeper.results.choices import choices, diverged, settled
from sweeper.results.points import tuned_in_words
from sweeper.results.table import Table
from sweeper.store.errors import UserError

RATE, LOSS = "optimizer.learning_rate", "validation/loss"
DIVERGED = {"state": "failed", "reason": "nan: the training loss is nan (attempt 1)"}


def table(measured, *, test=1.0):
    """The trials of one arm; `measured`: rate -> the validation loss of each seed."""
    rows = [
        {"experiment": "x_trials", "arm": "a", "point": f"heads=2 learning_rate={rate}", RATE: rate,
         "seed": seed, "run": f"r{rate}-s{seed}", "test/loss": test * rate, LOSS: loss,
         "state": "done", "reason": ""} | (DIVERGED if loss is None else {})
        for rate, losses in measured.items()
        for seed, loss in enumerate(losses)
    ]  # fmt: skip
    about = {"metric": LOSS, "arms": {"a": {}}, "tune": {"grid": {RATE: list(measured)}}}
    settings = {
        f"heads=2 learning_rate={rate}": {"model.heads": 2, RATE: rate} for rate in measured
    }
    return Table("x_trials", about, {}, settings, list(rows[0]), rows)


def test_the_least_loss_is_chosen_and_its_trials_are_named():
    [choice] = choices(table({0.1: [3.0], 0.2: [2.0], 0.4: [2.5]}))
    assert (choice.arm, choice.setting, choice.values) == ("a", {"model.heads": 2}, {RATE: 0.2})
    assert (choice.among, choice.best) == (3, ["r0.2-s0"])
    assert choice.trials == ["r0.1-s0", "r0.2-s0", "r0.4-s0"]


@pytest.mark.parametrize("test", [-1.0, 0.0, 1e9])
def test_nothing_of_the_test_split_is_seen(test):
    measured = {0.1: [3.0, 3.1], 0.2: [2.0, 2.1], 0.4: [2.5, 2.4]}
    assert choices(table(measured, test=test)) == choices(table(measured))


def test_a_value_that_diverged_for_any_seed_is_worse_than_all_others():
    found = table({0.1: [9.0, 9.0], 0.2: [1.0, None]})
    assert settled(found)
    assert [diverged(row) for row in found.rows] == [False, False, False, True]
    [choice] = choices(found)
    assert choice.values == {RATE: 0.1}
    with pytest.raises(
        UserError, match=r"every trial like .* diverged; give experiment\.tune other"
    ):
        choices(table({0.1: [None], 0.2: [None]}))


def test_a_trial_that_is_not_done_or_never_validated_decides_nothing():
    found = table({0.1: [3.0], 0.2: [2.0]})
    waiting = [{**row, "state": "new"} for row in found.rows]
    assert not settled(
        Table(found.name, found.experiment, {}, found.settings, found.columns, waiting)
    )
    blind = [{**row, LOSS: None} for row in found.rows]
    with pytest.raises(UserError, match="was trained without validation/loss"):
        choices(Table(found.name, found.experiment, {}, found.settings, found.columns, blind))


def test_values_that_cannot_be_told_apart_are_counted():
    [alike] = choices(table({0.1: [2.0, 2.4], 0.2: [2.1, 2.2], 0.4: [9.0, 9.3]}))
    assert (alike.values, alike.alike, alike.agreeing, alike.seeds) == ({RATE: 0.2}, 1, 1, 2)
    [apart] = choices(table({0.1: [3.0, 3.01], 0.2: [2.0, 2.01]}))
    assert (apart.alike, apart.agreeing) == (0, 2)
    [one_seed] = choices(table({0.1: [3.0], 0.2: [2.0]}))
    assert one_seed.alike is None


def test_the_words_say_what_was_chosen_among_how_many_and_what_is_open():
    tune = {"per": "size"}
    made = {"values": {RATE: 0.1}, "among": 3, "at_end": [], "alike": 0, "agreeing": 2, "seeds": 2}
    told = tuned_in_words(
        {
            "tune": tune,
            "tuning": [
                {"arm": "standard", **made},
                {"arm": "standard", **made, "values": {RATE: 0.4}, "at_end": [RATE], "alike": 1},
                {"arm": "fixed", **made},
            ],
        }
    )
    assert told == [
        "Learning rate chosen on validation among 3 per arm and size: "
        "standard 0.1 to 0.4; fixed 0.1.",
        "At an end of what was tried, so perhaps not at its best: standard 0.4.",
        "1 of 3 choices cannot be told from another value tried; "
        "6 of 6 seeds alone would have chosen the same.",
    ]
    assert tuned_in_words({"title": "of another experiment"}) == []
