"""What BERT counts equals the closed form and the paper's tables, to the unit.

The formula is the one under which all published counts of Tables 1 to 3 come out: the encoder with
the heads of its pre-training, all biases, 30522 tokens, 512 positions, 2 types.
"""

from __future__ import annotations

import pytest
import torch

from models.bert_heads import PretrainingModel
from models.measure import forward_flops, parameter_counts
from models.transformer import Encoder


def _closed_form(d: int, w: int, f: int, layers: int, v: int, p: int, types: int) -> int:
    embedding = (v + p + types) * d + 2 * d
    attention = 3 * (d * w + w) + (w * d + d)
    block = attention + (2 * d * f + f + d) + 4 * d
    pooler, masked_tokens, next_sentence = d**2 + d, d**2 + d + 2 * d + v, 2 * d + 2
    return embedding + layers * block + pooler + masked_tokens + next_sentence


def _count(**sizes: int) -> dict[str, int]:
    with torch.device("meta"):
        return parameter_counts(PretrainingModel(Encoder(**sizes)))


@pytest.mark.parametrize(
    "sizes",
    [(2, 5, 3, 2, 17, 19, 23, 2), (3, 7, 11, 13, 17, 19, 23, 3), (2, 7, 3, 13, 17, 19, 23, 3)],
    ids=str,
)
def test_counts_equal_the_closed_form(sizes: tuple[int, ...]) -> None:
    layers, d, heads, head_size, f, v, p, types = sizes
    counts = _count(
        vocabulary_size=v,
        layers=layers,
        embedding_size=d,
        heads=heads,
        head_size=head_size,
        feedforward_size=f,
        positions=p,
        types=types,
    )
    assert counts["params_total"] == _closed_form(d, heads * head_size, f, layers, v, p, types)
    assert counts["params_embedding"] == (v + p + types) * d


PUBLISHED = {  # table: d, f, [(heads, head_size, parameters, printed millions)]
    "table1": (
        1024,
        4096,
        [(8, 128, 336226108, 336), (16, 64, 336226108, 336), (32, 32, 336226108, 336)],
    ),
    "table2a": (
        512,
        4096,
        [
            (8, 128, 167690044, 168),
            (12, 128, 192892732, 193),
            (16, 128, 218095420, 218),
            (32, 128, 318906172, 319),
        ],
    ),
    "table2b": (
        512,
        4096,
        [
            (8, 32, 129886012, 130),
            (8, 64, 142487356, 142),
            (8, 128, 167690044, 168),
            (8, 256, 218095420, 218),
        ],
    ),
    "table3": (
        768,
        3072,
        [
            (8, 128, 214053692, 214),
            (12, 128, 251839292, 252),
            (16, 128, 289624892, 290),
            (20, 128, 327410492, 327),
        ],
    ),
}


@pytest.mark.parametrize(
    ("d", "f", "heads", "head_size", "parameters", "millions"),
    [
        pytest.param(d, f, *row, id=f"{table}_{row[0]}x{row[1]}")
        for table, (d, f, rows) in PUBLISHED.items()
        for row in rows
    ],
)
def test_the_papers_15_counts(
    d: int, f: int, heads: int, head_size: int, parameters: int, millions: int
) -> None:
    counts = _count(
        vocabulary_size=30522,
        layers=24,
        embedding_size=d,
        heads=heads,
        head_size=head_size,
        feedforward_size=f,
    )
    assert counts["params_total"] == parameters
    assert parameters == _closed_form(d, heads * head_size, f, 24, 30522, 512, 2)
    assert round(parameters / 1e6) == millions


def test_flops_equal_the_closed_form() -> None:
    rows, length, masked = 5, 11, 3
    layers, d, heads, head_size, f, v = 2, 13, 3, 7, 17, 29
    w = heads * head_size
    with torch.device("meta"):
        model = PretrainingModel(
            Encoder(
                vocabulary_size=v,
                layers=layers,
                embedding_size=d,
                heads=heads,
                head_size=head_size,
                feedforward_size=f,
            )
        )
        tokens_BT = torch.zeros(rows, length, dtype=torch.long)
        places_BM = torch.zeros(rows, masked, dtype=torch.long)

    def forward() -> None:
        hidden_BTD = model(tokens_BT, tokens_BT, tokens_BT == 0)
        model.token_logits(hidden_BTD, places_BM)
        model.next_logits(hidden_BTD)

    blocks = layers * length * (8 * d * w + 4 * w * length + 4 * d * f)
    on_top = masked * (2 * d * d + 2 * d * v) + 2 * d * d + 2 * d * 2
    assert forward_flops(forward) == rows * (blocks + on_top)
