"""The language model sees only its own sentence up to the current position.

Shapes: T positions, D embedding_size.
"""

import math

import pytest
import torch

from models.embedding import sinusoids
from tests.models.conftest import decoder, influence, normal, pack


def test_a_position_depends_on_the_past_of_its_own_sentence_only():
    model, row = decoder(), pack(5, 7, 3, padding=2)
    segments = row[1][0]
    for position in range(len(segments)):
        [gradient_TD] = influence(model, row, position)
        past = torch.arange(len(segments)) <= position
        seen = past & (segments == segments[position])
        assert (gradient_TD[seen] != 0).any(dim=-1).all()
        assert (gradient_TD[~seen] == 0).all()


def test_padding_influences_nothing_and_is_never_nan():
    model, (tokens, segments, positions) = decoder(), pack(5, 3, padding=7)
    first, second = (
        model(ids, segments, positions) for ids in (tokens, tokens * (segments > 0))
    )
    assert torch.equal(first[segments != 0], second[segments != 0])
    assert not torch.equal(first[segments == 0], second[segments == 0])

    nothing = torch.zeros_like(segments)
    targets = torch.full_like(tokens, -100)
    nats, count = model.loss(model(tokens, nothing, positions), targets)
    nats.backward()
    assert (nats, count) == (0, 0)
    assert first.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_every_parameter_is_trained():
    model, row = decoder(tie_embeddings=False), pack(5, 7)
    nats, _ = model.loss(model(*row), row[0].roll(-1))
    nats.backward()
    for name, parameter in model.named_parameters():
        assert (parameter.grad != 0).any(), name


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu"])
@pytest.mark.parametrize("feedforward", ["plain", "gated"])
def test_the_activation_is_the_one_asked_for(activation, feedforward):
    model = decoder(activation=activation, feedforward=feedforward)
    layer, x = model.blocks[0].feed_forward, normal(3, 13)
    first, *others = layer.expand(x).split(17, dim=1)
    activated = getattr(torch.nn.functional, activation)(first)
    assert torch.equal(layer(x), layer.contract(math.prod(others, start=activated)))


def test_no_layer_has_a_bias_unless_asked_for():
    assert "bias" not in "".join(decoder(biases=False).state_dict())


def test_dropout_acts_at_four_places_in_training_and_nowhere_else():
    """The places are the embedding sum, residual branches, activations and attention weights."""
    row = pack(5, 7)
    model = decoder(dropout=0.3)
    assert torch.equal(model(*row), model(*row))
    block = model.blocks[0]
    activations = block.feed_forward.dropout
    for part in (model.dropout, block.dropout, activations, block.attention):
        part.train()
        assert not torch.equal(model(*row), model(*row)), part
        part.eval()


def test_sinusoids_are_those_of_tensor2tensor():
    angles = 11 * torch.tensor([1.0, 1e-2, 1e-4])
    expected = torch.cat((angles.sin(), angles.cos(), torch.zeros(1)))
    torch.testing.assert_close(sinusoids(torch.tensor([[11]]), 7)[0, 0], expected)
