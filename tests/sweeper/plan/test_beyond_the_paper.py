"""Experiments beyond the paper compare what they say: equal parameters where they say so."""

from __future__ import annotations

import pytest

SCALES = ["demo", "gpu", "paper"]


def sizes(found, arm):
    runs = {point.run for point in found.points if point.arm == arm}
    return {found.runs[run].size["params_total"] for run in runs}


@pytest.mark.parametrize("scale", SCALES)
def test_models_of_one_width_have_one_size(plan, scale):
    found = plan("experiment=equal_width", f"scale={scale}", "seed=0")
    assert len(found.runs) >= 7
    assert len(sizes(found, "narrow")) == len(sizes(found, "wide")) == 1


@pytest.mark.parametrize("scale", SCALES)
def test_heads_of_several_sizes_cost_what_heads_of_one_size_cost(plan, scale):
    found = plan("experiment=head_sizes", f"scale={scale}", "seed=0")
    assert len(found.runs) == 4
    assert len({run.size["params_total"] for run in found.runs.values()}) == 1


@pytest.mark.parametrize("scale", SCALES)
def test_values_grown_mirror_queries_and_keys_grown(plan, scale):
    found = plan("experiment=value_size", f"scale={scale}", "seed=0")
    assert sizes(found, "values") == sizes(found, "queries_and_keys")
    matched = [point.matched for point in found.points if point.matched]
    assert [match.error for match in matched] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("scale", SCALES)
def test_the_rank_of_heads_is_that_of_figure_3s_models(plan, scale):
    found = plan("experiment=fig3,attention_rank", f"scale={scale}", "seed=0")
    runs = {
        name: {point.run for point in found.points if point.experiment.startswith(name)}
        for name in ("fig3", "attention_rank")
    }
    assert runs["attention_rank"] <= runs["fig3"]
