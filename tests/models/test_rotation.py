"""Rotary positions rotate queries and keys, so that logits depend on distances within a segment.

Shapes: B batch, T positions, D embedding_size, H heads, P head_size.
"""

import math

import pytest
import torch

from models.attention import _heads
from models.rotation import Rotation
from models.transformer import Decoder
from sweeper.store.registry import ATTENTION, names
from tasks.architectures.decoder import supports_rotary
from tasks.config.architecture import variant
from tests.models.conftest import DECODER

TURNING = [name for name in names(ATTENTION) if supports_rotary(variant(name))]
every_turning = pytest.mark.parametrize("name", TURNING)


def _decoder(name, **changes):
    sizes = {**DECODER, "head_size": 6, "position_encoding": "rotary", **changes}
    return Decoder(**sizes, attention=variant(name)).double().eval()


def test_a_pair_of_numbers_turns_by_its_own_angle():
    x = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]).view(1, 1, 1, 5).double()
    rotation = Rotation(torch.tensor([[3]]), {5: 4}, base=100.0)
    # The angles of the pairs i = 0 and 1 at position 3, since 100^(-2 i / 4) is 1 and 1 / 10.
    (a, b), (c, d) = (3 * 1.0, 3 / 10), (math.cos, math.sin)
    expected = [
        c(a) - 3 * d(a),
        2 * c(b) - 4 * d(b),
        3 * c(a) + d(a),
        4 * c(b) + 2 * d(b),
        5.0,
    ]
    torch.testing.assert_close(
        rotation(x, 5).flatten(), torch.tensor(expected).double(), rtol=0, atol=1e-6
    )


@pytest.mark.parametrize("count", [3, 7])
def test_an_odd_number_cannot_be_turned(count):
    with pytest.raises(ValueError, match=f"even number of dimensions, not {count}"):
        Rotation(torch.zeros(1, 1), {8: count}, 10.0)


@every_turning
@pytest.mark.parametrize("rotary_size", [None, 4])
def test_a_packed_sentence_equals_the_sentence_alone(name, rotary_size, pack):
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
        # The tolerance is larger here, because angles have single precision.
        torch.testing.assert_close(moved, alone, rtol=0, atol=1e-4)
        stretched = model(tokens[None], torch.ones(1, length), 2 * places)[0]
        assert (length == 1) == torch.allclose(stretched, alone, rtol=0, atol=1e-3)


@every_turning
def test_zeros_for_a_gpu_are_not_turned(name, pack, monkeypatch):
    model, row = _decoder(name, head_size=[6, [2, 6, 4]]), pack(5, 7)
    expected_BTD = model(*row)
    monkeypatch.setattr(_heads, "MULTIPLES", {"cpu": 8})
    torch.testing.assert_close(model(*row), expected_BTD, rtol=0, atol=1e-12)
