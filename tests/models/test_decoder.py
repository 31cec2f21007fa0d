"""The language model sees the past of its own sentence and nothing else.

Shapes: T positions, D embedding_size.
"""

import math

import pytest
import torch

from models.attention import _heads
from models.embedding import TokenEmbedding, sinusoids
from models.rotation import Rotation
from models.transformer import Decoder
from sweeper.store.registry import ATTENTION, names
from tasks.architectures.decoder import turns
from tasks.config.architecture import variant
from tests.models.conftest import DECODER


def _influence(model, row, position):
    """Return the gradient_TD of one position's hidden vector with respect to every embedding."""
    seen = []
    handle = model.embedding.register_forward_hook(lambda *call: seen.append(call[-1]))
    hidden_D = model(*row)[0, position]
    handle.remove()
    return torch.autograd.grad((hidden_D * torch.randn_like(hidden_D)).sum(), seen)[0][0]


def test_a_position_depends_on_the_past_of_its_own_sentence_only(decoder, pack):
    model, row = decoder(), pack(5, 7, 3, padding=2)
    segments = row[1][0]
    for position in range(len(segments)):
        gradient_TD = _influence(model, row, position)
        past = torch.arange(len(segments)) <= position
        seen = past & (segments == segments[position])
        assert (gradient_TD[seen] != 0).any(dim=-1).all()
        assert (gradient_TD[~seen] == 0).all()


@pytest.mark.parametrize("name", names(ATTENTION))
def test_a_packed_sentence_equals_the_sentence_alone(name, decoder, pack):
    model, lengths = decoder(attention=variant(name)), (5, 7, 1, 3)
    row = pack(*lengths, padding=4)
    packed_TD = model(*row)[0, : sum(lengths)]
    for tokens, packed in zip(
        row[0][0, : sum(lengths)].split(lengths), packed_TD.split(lengths), strict=True
    ):
        length = len(tokens)
        alone = model(tokens[None], torch.ones(1, length), torch.arange(length)[None])[0]
        torch.testing.assert_close(packed, alone, rtol=0, atol=1e-12)


def test_padding_influences_nothing_and_is_never_nan(decoder, pack):
    model, (tokens, segments, positions) = decoder(), pack(5, 3, padding=7)
    other = torch.where(segments == 0, (tokens + 1) % len(model.embedding.weight), tokens)
    first, second = (model(ids, segments, positions) for ids in (tokens, other))
    assert torch.equal(first[segments != 0], second[segments != 0])
    assert not torch.equal(first[segments == 0], second[segments == 0])

    nothing = torch.zeros_like(segments)
    targets = torch.full_like(tokens, -100)
    nats, count = model.loss(model(tokens, nothing, positions), targets)
    nats.backward()
    assert (nats, count) == (0, 0)
    assert first.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("tie", [True, False], ids=["tied", "untied"])
def test_the_gradient_reaches_every_parameter(tie, decoder, pack):
    model, row = decoder(tie_embeddings=tie), pack(5, 7)
    nats, _ = model.loss(model(*row), row[0].roll(-1))
    nats.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert (parameter.grad != 0).any(), name


@pytest.mark.parametrize("tie", [True, False], ids=["tied", "untied"])
def test_the_softmax_shares_the_embedding_only_if_tied(tie, decoder, pack):
    model, row = decoder(tie_embeddings=tie), pack(5)
    hidden_BTD = model(*row)
    shared = torch.equal(model.logits(hidden_BTD), hidden_BTD @ model.embedding.weight.T)
    assert shared == tie
    assert len(model.embedding_parameters()) == (1 if tie else 2)


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu"])
@pytest.mark.parametrize("feedforward", ["plain", "gated"])
def test_the_activation_is_the_one_asked_for(activation, feedforward, decoder):
    model, x = decoder(activation=activation, feedforward=feedforward), torch.randn(3, 13).double()
    layer, function = model.blocks[0].feed_forward, getattr(torch.nn.functional, activation)
    hidden = layer.expand(x)
    gates = hidden[:, :-17]  # empty for a plain layer, whose hidden numbers are 17
    hidden = function(gates) * hidden[:, -17:] if feedforward == "gated" else function(hidden)
    assert torch.equal(layer(x), layer.contract(hidden))


def test_norms_biases_and_the_scale_are_those_asked_for(decoder, pack):
    biases = [name for name, _ in decoder(biases=False).named_parameters() if "bias" in name]
    assert not biases
    model, (tokens, *places) = decoder(normalisation="rms", scale_embeddings=False), pack(5, 7)
    norms = [layer for layer in model.modules() if isinstance(layer, torch.nn.RMSNorm)]
    assert len(norms) == 2 * len(model.blocks) + 1
    unscaled = model.embedding(tokens, places[1]) - sinusoids(places[1], 13)
    torch.testing.assert_close(unscaled, model.embedding.weight[tokens], rtol=0, atol=1e-7)
    hidden_TD = model(tokens, *places)[0]
    torch.testing.assert_close(
        hidden_TD.square().mean(-1), torch.ones(12).double(), rtol=1e-3, atol=0
    )


def test_an_unknown_activation_is_refused(decoder):
    with pytest.raises(ValueError, match="'swish' is none of: relu, gelu, silu"):
        decoder(activation="swish")


def test_dropout_acts_at_four_places_in_training_and_nowhere_else(decoder, pack):
    """The embedding sum, residual branches, activations and attention weights."""
    row = pack(5, 7)
    model = decoder(dropout=0.3)
    assert torch.equal(model(*row), model(*row))
    parts = {
        "embedding": model.dropout,
        "branches": model.blocks[0].dropout,
        "activations": model.blocks[0].feed_forward.dropout,
        "attention": model.blocks[0].attention,
    }
    for name, part in parts.items():
        part.train()
        assert not torch.equal(model(*row), model(*row)), name
        part.eval()


def test_dropout_acts_on_all_that_a_block_adds(decoder):
    block = decoder(dropout=1.0).blocks[0]
    x_BTD = torch.randn(2, 7, 13, dtype=torch.float64)
    assert not torch.equal(block(x_BTD), x_BTD)
    block.dropout.train()
    assert torch.equal(block(x_BTD), x_BTD)


def test_sinusoids_are_those_of_tensor2tensor():
    size, position = 7, 11
    rates = [1.0, 10000 ** (-1 / 2), 10000**-1.0]
    expected = [math.sin(position * r) for r in rates] + [math.cos(position * r) for r in rates]
    actual = sinusoids(torch.tensor([[position]]), size)[0, 0]
    torch.testing.assert_close(actual, torch.tensor([*expected, 0.0]))


def test_embeddings_enter_with_unit_variance():
    embedding = TokenEmbedding(1009, 101)
    tokens, zeros = torch.arange(1009)[None], torch.zeros(1, 1009, dtype=torch.long)
    entering = embedding(tokens, zeros) - sinusoids(zeros, 101)
    assert entering.std().item() == pytest.approx(1, rel=0.02)


TURNING = [name for name in names(ATTENTION) if turns(variant(name))]
every_turning = pytest.mark.parametrize("name", TURNING)


def _decoder(name, **changes):
    sizes = {**DECODER, "head_size": 6, "position_encoding": "rotary", **changes}
    return Decoder(**sizes, attention=variant(name)).double().eval()


def test_a_pair_of_numbers_turns_by_its_own_angle():
    x = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]).view(1, 1, 1, 5).double()
    rotation = Rotation(torch.tensor([[3]]), {5: 4}, base=100.0)
    (a, b), (c, d) = (3 * 1.0, 3 / 10), (math.cos, math.sin)  # 100^(-2 i / 4) is 1 and 1 / 10
    expected = [c(a) - 3 * d(a), 2 * c(b) - 4 * d(b), 3 * c(a) + d(a), 4 * c(b) + 2 * d(b), 5.0]
    torch.testing.assert_close(
        rotation(x, 5).flatten(), torch.tensor(expected).double(), rtol=0, atol=1e-6
    )


def test_products_depend_on_the_distance_alone():
    query, key = torch.randn(2, 1, 1, 1, 8).double()
    products = [
        (Rotation(torch.tensor([[at]]), {8: 8}, 50.0)(query, 8)
         * Rotation(torch.tensor([[at - 5]]), {8: 8}, 50.0)(key, 8)).sum()
        for at in (5, 11, 40)
    ]  # fmt: skip
    torch.testing.assert_close(products[0].expand(2), torch.stack(products[1:]), rtol=0, atol=1e-5)
    assert abs(products[0] - (query * key).sum()) > 1e-3


@pytest.mark.parametrize("count", [3, 7])
def test_an_odd_number_cannot_be_turned(count):
    with pytest.raises(ValueError, match=f"in pairs, and {count} is odd"):
        Rotation(torch.zeros(1, 1), {8: count}, 10.0)


@every_turning
@pytest.mark.parametrize("rotary_size", [None, 4])
def test_a_packed_sentence_with_rotary_positions_equals_the_sentence_alone(name, rotary_size, pack):
    model, lengths = _decoder(name, rotary_size=rotary_size), (5, 7, 1, 3)
    row = pack(*lengths, padding=4)
    packed_TD = model(*row)[0, : sum(lengths)]
    for tokens, packed in zip(
        row[0][0, : sum(lengths)].split(lengths), packed_TD.split(lengths), strict=True
    ):
        length = len(tokens)
        places = torch.arange(length)[None]
        alone = model(tokens[None], torch.ones(1, length), places)[0]
        torch.testing.assert_close(packed, alone, rtol=0, atol=1e-12)
        moved = model(tokens[None], torch.ones(1, length), places + 100)[0]
        torch.testing.assert_close(moved, alone, rtol=0, atol=1e-4)  # angles in single precision
        stretched = model(tokens[None], torch.ones(1, length), 2 * places)[0]
        assert (length == 1) == torch.allclose(stretched, alone, rtol=0, atol=1e-3)


@every_turning
def test_without_positions_the_order_of_the_past_does_not_matter(name, pack):
    tokens, segments, positions = pack(7)
    order = torch.tensor([3, 1, 4, 0, 5, 2, 6])
    for encoding, same in (("none", True), ("rotary", False), ("sinusoidal", False)):
        model = _decoder(name, layers=1, position_encoding=encoding)
        last, other = (model(one, segments, positions)[0, -1] for one in (tokens, tokens[:, order]))
        assert torch.allclose(last, other, rtol=0, atol=1e-12) == same


@every_turning
def test_zeros_for_a_gpu_are_not_turned(name, pack, monkeypatch):
    model, row = _decoder(name, head_size=[6, [2, 6, 4]]), pack(5, 7)
    expected_BTD = model(*row)
    monkeypatch.setattr(_heads, "MULTIPLES", {"cpu": 8})
    torch.testing.assert_close(model(*row), expected_BTD, rtol=0, atol=1e-12)


@every_turning
def test_half_precision_stays_half_precision(name, pack, attended):
    with torch.autocast("cpu", torch.bfloat16):
        _decoder(name, normalisation="rms").float()(*pack(5, 7))
    assert {one.dtype for call in attended for one in call[:3]} == {torch.bfloat16}
