"""Parameter and FLOP counts of built models equal closed forms, and the sizes that are published.

The formulas stand only here. They are derived from tensor2tensor's language model and from BERT.
"""

import pytest
import torch

from models.bert_heads import PretrainingModel
from models.measure import forward_flops, parameter_counts
from models.transformer import Decoder, Encoder

LM1B = {"vocabulary_size": 32768, "layers": 6, "feedforward_size": 1024}


def _meta(**sizes):
    with torch.device("meta"):
        return Decoder(**sizes)


def _blocks(layers, embedding_size, width, feedforward_size):
    d, f = embedding_size, feedforward_size
    return layers * (4 * d * width + 2 * d * f + f + d + 4 * d) + 2 * d


PRIMES = [(2, 5, 3, 2, 17, 19), (3, 7, 11, 13, 17, 23)]


@pytest.mark.parametrize("tie", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize(("layers", "d", "heads", "head_size", "f", "v"), PRIMES)
def test_counts_equal_the_closed_form(layers, d, heads, head_size, f, v, tie):
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


TABLE = [  # embedding_size, heads, head_size; millions: tied, untied, without embeddings
    (256, 8, 32, (13.12, 21.51, 4.73)),
    (512, 8, 64, (29.38, 46.16, 12.61)),
    (256, 4, 32, (12.34, 20.72, 3.95)),
    (256, 70, 32, (25.31, 33.70, 16.92)),
]


@pytest.mark.parametrize(("embedding_size", "heads", "head_size", "millions"), TABLE)
def test_the_papers_language_models_have_the_known_sizes(
    embedding_size, heads, head_size, millions
):
    sizes = {"embedding_size": embedding_size, "heads": heads, "head_size": head_size}
    tied, untied = (parameter_counts(_meta(**LM1B, **sizes, tie_embeddings=t)) for t in (1, 0))
    counts = (tied["params_total"], untied["params_total"], tied["params_non_embedding"])
    assert tuple(round(count / 1e6, 2) for count in counts) == millions
    assert tied["params_non_embedding"] == untied["params_non_embedding"]


def test_heads_at_the_standard_head_size_cost_no_parameters_and_fixed_ones_do():
    def total(heads, head_size):
        sizes = {"embedding_size": 256, "heads": heads, "head_size": head_size}
        return parameter_counts(_meta(**LM1B, **sizes))["params_total"]

    assert total(4, 64) == total(16, 16) == total(64, 4)
    assert total(9, 32) - total(8, 32) == 6 * 4 * 256 * 32


@pytest.mark.parametrize("tie", [True, False], ids=["tied", "untied"])
def test_flops_equal_the_closed_form(tie):
    layers, d, heads, head_size, f, v, length = 3, 13, 7, 11, 19, 23, 17
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

    def forward():
        model.logits(model(tokens_BT, tokens_BT, tokens_BT))

    assert forward_flops(forward) == rows * length * per_position


def _closed_form(d, w, f, layers, v, p, types):
    embedding = (v + p + types) * d + 2 * d
    attention = 3 * (d * w + w) + (w * d + d)
    block = attention + (2 * d * f + f + d) + 4 * d
    pooler, masked_tokens, next_sentence = d**2 + d, d**2 + d + 2 * d + v, 2 * d + 2
    return embedding + layers * block + pooler + masked_tokens + next_sentence


def _count(**sizes):
    with torch.device("meta"):
        return parameter_counts(PretrainingModel(Encoder(**sizes)))


@pytest.mark.parametrize(
    "sizes",
    [(2, 5, 3, 2, 17, 19, 23, 2), (3, 7, 11, 13, 17, 19, 23, 3)],
    ids=str,
)
def test_encoder_counts_equal_the_closed_form(sizes):
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


PUBLISHED = {  # table: d, f, [(heads, head_size, parameters)]
    "table1": (1024, 4096, [(8, 128, 336226108), (16, 64, 336226108), (32, 32, 336226108)]),
    "table2a": (
        512,
        4096,
        [(8, 128, 167690044), (12, 128, 192892732), (16, 128, 218095420), (32, 128, 318906172)],
    ),
    "table2b": (
        512,
        4096,
        [(8, 32, 129886012), (8, 64, 142487356), (8, 128, 167690044), (8, 256, 218095420)],
    ),
    "table3": (
        768,
        3072,
        [(8, 128, 214053692), (12, 128, 251839292), (16, 128, 289624892), (20, 128, 327410492)],
    ),
}


@pytest.mark.parametrize(("d", "f", "rows"), PUBLISHED.values(), ids=PUBLISHED)
def test_the_papers_15_counts(d, f, rows):
    for heads, head_size, parameters in rows:
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


def test_encoder_flops_equal_the_closed_form():
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

    def forward():
        hidden_BTD = model(tokens_BT, tokens_BT, tokens_BT == 0)
        model.token_logits(hidden_BTD, places_BM)
        model.next_logits(hidden_BTD)

    blocks = layers * length * (8 * d * w + 4 * w * length + 4 * d * f)
    on_top = masked * (2 * d * d + 2 * d * v) + 2 * d * d + 2 * d * 2
    assert forward_flops(forward) == rows * (blocks + on_top)
