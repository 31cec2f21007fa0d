"""Rotary positions rotate queries and keys, so that logits depend on distances within a segment.

Shapes: B batch, T positions, D embedding_size, H heads, P head_size.
"""

import pytest
import torch

from models.attention import _heads
from models.rotation import Rotation
from sweeper.store.registry import ATTENTION, names
from tasks.architectures.decoder import supports_rotary
from tasks.config.architecture import variant
from tests.models.conftest import assert_same, decoder, normal, pack

TURNING = [name for name in names(ATTENTION) if supports_rotary(variant(name))]
every_turning = pytest.mark.parametrize("name", TURNING)


def _decoder(name, **changes):
    rotary = {"head_size": 6, "position_encoding": "rotary", **changes}
    return decoder(**rotary, attention=variant(name))


def test_a_pair_of_numbers_turns_by_its_own_angle():
    x = normal(5)
    rotation = Rotation(torch.tensor([[3]]), {5: 4}, base=100.0)
    # The angles of the pairs i = 0 and 1 at position 3, since 100^(-2 i / 4) is 1 and 1 / 10.
    angles = torch.tensor([3.0, 0.3], dtype=torch.float64)
    turned = torch.complex(x[:2], x[2:4]) * torch.exp(1j * angles)
    expected = torch.cat((turned.real, turned.imag, x[4:]))
    assert_same(rotation(x.view(1, 1, 1, 5), 5).flatten(), expected, 1e-6)


def test_an_odd_number_cannot_be_turned():
    with pytest.raises(ValueError, match="not 7"):
        Rotation(torch.zeros(1, 1), {8: 7}, 10.0)


@every_turning
@pytest.mark.parametrize("rotary_size", [None, 4])
def test_a_packed_sentence_equals_the_sentence_alone(name, rotary_size):
    model, lengths = _decoder(name, rotary_size=rotary_size), (5, 7, 1, 3)
    row = pack(*lengths, padding=4)
    packed_TD = model(*row)[0, : sum(lengths)]
    for tokens, packed in zip(
        row[0][0, : sum(lengths)].split(lengths), packed_TD.split(lengths), strict=True
    ):

        def alone(places, tokens=tokens):
            return model(tokens[None], torch.ones(1, len(tokens)), places[None])[0]

        places = torch.arange(len(tokens))
        expected = alone(places)
        assert_same(packed, expected)
        # The tolerance is larger here, because angles have single precision.
        assert_same(alone(places + 100), expected, 1e-4)
        alike = torch.allclose(alone(2 * places), expected, rtol=0, atol=1e-3)
        assert alike == (len(tokens) == 1)


@every_turning
def test_zeros_for_a_gpu_are_not_turned(name, monkeypatch):
    model, row = _decoder(name, head_size=[6, [2, 6, 4]]), pack(5, 7)
    expected_BTD = model(*row)
    monkeypatch.setattr(_heads, "MULTIPLES", {"cpu": 8})
    assert_same(model(*row), expected_BTD)
