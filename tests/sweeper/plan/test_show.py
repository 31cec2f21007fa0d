"""Tests of the warning that the training text does not fit the scale."""

import pytest

from sweeper.plan.show import unfit_scale

REAL = "data=local data.root=text"
GENERATED = (
    "is for real text, but 2 runs would train on the generated text; add data=local"
)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("scale=cpu", f"scale=cpu {GENERATED}"),
        ("scale=gpu task=squad", f"scale=gpu {GENERATED}"),
        (
            REAL,
            "scale=demo is for the generated text; its models hardly learn from real text",
        ),
        (f"scale=cpu {REAL}", ""),
        ("scale=demo", ""),
        ("scale=cpu task=representation", ""),
    ],
)
def test_a_plan_says_that_its_scale_does_not_fit_its_text(plan, typed, said):
    found = plan("model.heads=2,4", typed)
    assert len(found.runs) == 2
    words = unfit_scale(found, found.runs)
    assert words.startswith(said)
    assert bool(words) == bool(said)
    assert unfit_scale(found, []) == ""  # no run is left to train
