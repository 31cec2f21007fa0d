"""What the built model counts equals the closed forms, which stand only here.

The formulas and the printed millions are those derived from tensor2tensor's language model; the
published totals of several of its models come out of the same formula.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from models.measure import forward_flops, parameter_counts
from models.transformer import Decoder

LM1B = {"vocabulary_size": 32768, "layers": 6, "feedforward_size": 1024}


def _meta(**sizes: Any) -> Decoder:
    with torch.device("meta"):
        return Decoder(**sizes)


def _blocks(layers: int, embedding_size: int, width: int, feedforward_size: int) -> int:
    d, f = embedding_size, feedforward_size
    return layers * (4 * d * width + 2 * d * f + f + d + 4 * d) + 2 * d


PRIMES = [
    (2, 5, 3, 2, 17, 19),
    (3, 7, 11, 13, 17, 23),
    (2, 7, 3, 13, 17, 23),
    (3, 5, 11, 2, 17, 19),
]


@pytest.mark.parametrize("tie", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize(("layers", "d", "heads", "head_size", "f", "v"), PRIMES)
def test_counts_equal_the_closed_form(
    layers: int, d: int, heads: int, head_size: int, f: int, v: int, tie: bool
) -> None:
    model = _meta(
        vocabulary_size=v,
        layers=layers,
        embedding_size=d,
        heads=heads,
        head_size=head_size,
        feedforward_size=f,
        tie_embeddings=tie,
    )
    embedding = v * d * (1 if tie else 2)
    blocks = _blocks(layers, d, heads * head_size, f)
    assert parameter_counts(model) == {
        "params_total": embedding + blocks,
        "params_embedding": embedding,
        "params_non_embedding": blocks,
        "params_attention": layers * 4 * d * heads * head_size,
    }


STANDARD = {  # embedding_size: tied, untied, without embeddings; in millions
    256: (13.12, 21.51, 4.73),
    320: (16.89, 27.38, 6.41),
    384: (20.86, 33.44, 8.28),
    448: (25.02, 39.70, 10.34),
    512: (29.38, 46.16, 12.61),
}
FIXED = {  # heads of size 32 at embedding_size 256
    4: (12.34, 20.72, 3.95),
    8: (13.12, 21.51, 4.73),
    16: (14.69, 23.08, 6.31),
    24: (16.27, 24.66, 7.88),
    32: (17.84, 26.23, 9.45),
    48: (20.99, 29.37, 12.60),
    64: (24.13, 32.52, 15.74),
    70: (25.31, 33.70, 16.92),
}
TABLE = [
    *(pytest.param(d, 8, d // 8, row, id=f"standard_{d}") for d, row in STANDARD.items()),
    *(pytest.param(256, h, 32, row, id=f"fixed_{h}_heads") for h, row in FIXED.items()),
]


@pytest.mark.parametrize(("embedding_size", "heads", "head_size", "millions"), TABLE)
def test_the_papers_language_models_have_the_known_sizes(
    embedding_size: int, heads: int, head_size: int, millions: tuple[float, float, float]
) -> None:
    sizes = {"embedding_size": embedding_size, "heads": heads, "head_size": head_size}
    tied, untied = (parameter_counts(_meta(**LM1B, **sizes, tie_embeddings=t)) for t in (1, 0))
    counts = (tied["params_total"], untied["params_total"], tied["params_non_embedding"])
    assert tuple(round(count / 1e6, 2) for count in counts) == millions
    assert tied["params_non_embedding"] == untied["params_non_embedding"]


def test_heads_at_the_standard_head_size_cost_no_parameters_and_fixed_ones_do() -> None:
    def total(heads: int, head_size: int) -> int:
        sizes = {"embedding_size": 256, "heads": heads, "head_size": head_size}
        return parameter_counts(_meta(**LM1B, **sizes))["params_total"]

    assert total(4, 64) == total(16, 16) == total(64, 4)
    assert total(9, 32) - total(8, 32) == 6 * 4 * 256 * 32


@pytest.mark.parametrize("tie", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize(
    ("d", "heads", "head_size", "length"), [(5, 3, 2, 17), (13, 7, 11, 64), (5, 7, 11, 17)]
)
def test_flops_equal_the_closed_form(
    d: int, heads: int, head_size: int, length: int, tie: bool
) -> None:
    layers, f, v = 3, 19, 23
    model = _meta(
        vocabulary_size=v,
        layers=layers,
        embedding_size=d,
        heads=heads,
        head_size=head_size,
        feedforward_size=f,
        tie_embeddings=tie,
    )
    width = heads * head_size
    per_position = layers * (8 * d * width + 4 * width * length + 4 * d * f) + 2 * d * v
    rows = 2
    tokens_BT = torch.zeros(rows, length, dtype=torch.long, device="meta")

    def forward() -> None:
        model.logits(model(tokens_BT, tokens_BT, tokens_BT))

    assert forward_flops(forward) == rows * length * per_position
