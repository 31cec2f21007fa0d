"""Arms that are matched in what decoding keeps, counted on real models."""

from contextlib import closing

import pytest

from sweeper.size_server import SizeServer
from sweeper.store.errors import UserError


@pytest.fixture(scope="module")
def process():
    with closing(SizeServer()) as server:
        yield server


SHARED = """# @package _global_
experiment:
  title: one cache and one number of parameters
  metric: test/loss
  arms:
    own: {set: {model: today, model.heads: 2, model.head_size: 32, model.feedforward_size: 447}}
    grouped:
      set:
        model: today
        model/attention: grouped_query
        model.attention.key_value_heads: 2
        model.head_size: 32
      grid: {model.heads: [4, 8]}
      match: {to: own, solve: model.feedforward_size, tolerance: 0.01}
    latent:
      set: {model: today, model/attention: latent, model.attention.latent_size: 112}
      grid: {"model.heads,model.head_size": [[4, 32], [8, 24]]}
      match: {to: own, solve: model.feedforward_size, tolerance: 0.01}
    divisors:
      set: {model/attention: grouped_query, model.head_size: 8, HEADS}
      match: {to: 192, count: cache_bytes_per_token, tolerance: 0, SOLVE}
"""
SOLVE, HEADS = "solve: model.attention.key_value_heads", "model.heads: 12"
GROUPED = "model/attention: grouped_query, "


def test_cache_and_parameters_are_matched_together(plan, with_experiment):
    conf = with_experiment("shared", SHARED.replace("SOLVE", SOLVE).replace("HEADS", HEADS))
    found = plan("experiment=shared", "model.embedding_size=128", conf=conf)
    sizes = [found.runs[point.run].size for point in found.points]
    assert [point.arm for point in found.points[::2]] == ["own", "grouped", "latent"]
    for size in sizes[:-1]:
        assert size["cache_bytes_per_token"] == 256
        assert abs(size["params_total"] / sizes[0]["params_total"] - 1) < 0.01
    assert found.points[-1].values == {"model.attention.key_value_heads": 6}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"SOLVE": "solve: model.feedforward_size", "HEADS": HEADS},
            "does not change the count, which is 32 at 1",
        ),
        (
            {"SOLVE": "solve: model.heads", ", HEADS": "", GROUPED: "task: pretraining, "},
            "cache_bytes_per_token of encoder with multi_head attention: expected one of params",
        ),
    ],
)
def test_a_count_that_cannot_be_matched_is_said(plan, with_experiment, changes, told):
    text = SHARED
    for old, new in changes.items():
        text = text.replace(old, new)
    with pytest.raises(UserError, match=told):
        plan("experiment=shared", "model.embedding_size=128", conf=with_experiment("shared", text))
