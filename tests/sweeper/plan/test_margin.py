"""What an experiment calls no difference is a size and a reason; anything else is refused."""

from __future__ import annotations

from typing import Any

import pytest

from sweeper.plan.experiment import Pretrainings, read_experiment
from sweeper.store.errors import UserError

GRID: dict[str, Any] = {
    "title": "A grid",
    "metric": "test/perplexity",
    "arms": {"fixed": {"label": "fixed"}},
}


@pytest.mark.parametrize("size", ["1 %", "0.5%", 3, 0.25])
def test_a_margin_reaches_the_stages_after_the_plan(size):
    margin = {"test/perplexity": {"size": size, "reason": "Less is not seen."}}
    read = read_experiment("grid", {**GRID, "margin": margin}, scale="demo")
    assert read.described()["margin"] == margin
    assert read.pretrainings is Pretrainings.each


@pytest.mark.parametrize(
    ("margin", "told"),
    [
        ({"size": 0, "reason": "why"}, "size=0"),
        ({"size": "a little", "reason": "why"}, "size=a little"),
        ({"size": "inf", "reason": "why"}, "size=inf"),
        ({"size": 1, "reason": " "}, "reason"),
        ({"size": 1}, "reason"),
    ],
)
def test_a_margin_that_is_none_is_refused_in_a_sentence(margin, told):
    with pytest.raises(UserError) as caught:
        read_experiment("grid", {**GRID, "margin": {"test/perplexity": margin}}, scale="demo")
    assert told in str(caught.value)


def test_pretrainings_are_one_or_each():
    read = read_experiment("grid", {**GRID, "pretrainings": "one"}, scale="demo")
    assert read.pretrainings is Pretrainings.one
    with pytest.raises(UserError, match="pretrainings"):
        read_experiment("grid", {**GRID, "pretrainings": "some"}, scale="demo")
