"""A child with collaborative heads inherits the weights of a parent with separate heads."""

import sys
from functools import partial

import pytest
import torch
from torch import nn

from models.attention.collaborative import CollaborativeAttention
from models.attention.multi_head import MultiHeadAttention
from models.transformer import Decoder, Encoder
from tasks.inheritance import adapted
from tests.models.conftest import DECODER, both_precisions, decoder, pack
from tests.refusals import refusal
from tests.tasks.jobs import ended, science

WIDTH = 15


def _shared(size):
    return partial(CollaborativeAttention, shared_size=size)


def _adapted(model, parent):
    return adapted(model, parent.state_dict(), DECODER["heads"])


def _inputs(kind):
    tokens_BT, ones_BT, positions_BT = pack(7)
    if kind is Decoder:
        return tokens_BT, ones_BT, positions_BT
    return tokens_BT, 0 * ones_BT, ones_BT.bool()


@pytest.mark.parametrize("kind", [Decoder, Encoder])
@both_precisions
def test_of_full_size_the_outputs_are_those_of_the_original(kind, dtype, tolerance):
    original = kind(**DECODER).to(dtype).eval()
    # With small weights, attention would be nearly uniform.
    for layer in original.modules():
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=0.3)
    inputs = _inputs(kind)
    wanted_BTD = original(*inputs)
    for size, near in ((WIDTH, True), (WIDTH + 2, True), (2, False)):
        pytest.importorskip("tensorly")
        model = kind(**DECODER, attention=_shared(size)).to(dtype).eval()
        model.load_state_dict(_adapted(model, original))
        found_BTD = model(*inputs)
        assert torch.allclose(found_BTD, wanted_BTD, rtol=0, atol=tolerance) == near


def test_coordinates_that_the_parent_does_not_need_can_learn():
    model = decoder(attention=_shared(WIDTH + 2))
    model.load_state_dict(_adapted(model, decoder()))
    model(*_inputs(Decoder)).square().sum().backward()
    for block in model.blocks:
        gradient_SD = block.attention.key.weight.grad
        assert gradient_SD.any(dim=1).all()


def test_weights_that_share_already_are_taken_as_they_are():
    model = decoder(attention=_shared(7))
    assert _adapted(model, model).keys() == model.state_dict().keys()


@pytest.mark.parametrize(
    ("parent", "child", "told"),
    [
        # Their weights have equal shapes.
        ({}, {"heads": 5, "head_size": 3}, "the parent's 3 heads of size 5, not 5 of"),
        (
            {"attention": partial(MultiHeadAttention, qk_norm=True)},
            {},
            "expected a parent with model.attention.qk_norm=false",
        ),
    ],
)
def test_heads_that_shared_ones_cannot_equal_are_refused(parent, child, told):
    model = decoder(**child, attention=_shared(7))
    assert told in refusal(_adapted, model, decoder(**parent))


def test_without_tensorly_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorly.decomposition", None)
    model = decoder(attention=_shared(7))
    told = "needs tensorly, which is not installed; run: pip install"
    assert told in refusal(_adapted, model, decoder())


def test_a_run_without_steps_is_its_parent_with_shared_heads(prepared):
    parent = ended(prepared, {"trainer.steps": 5}, "parent")
    shared = {
        "parent": parent.id,
        "model.attention": {"name": "collaborative", "shared_size": WIDTH},
    }
    child = ended(prepared, {**shared, "trainer.steps": 0}, "child")
    tuned = ended(prepared, {**shared, "trainer.steps": 1}, "tuned")
    before, found, after = (science(run) for run in (parent, child, tuned))
    assert found["steps"] == found["tokens_seen"] == 0
    loss = found["metrics"]["test/loss"]
    assert loss == pytest.approx(before["metrics"]["test/loss"], abs=1e-5)
    assert after["metrics"]["test/loss"] != loss
    # The n-gram models of its own steps have not seen the text of the parent.
    trigram = "test/trigram_perplexity"
    assert trigram in before["metrics"]
    assert trigram not in after["metrics"]
