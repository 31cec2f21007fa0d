"""Parameter and FLOP counts of built models equal closed forms, and the sizes that are published.

The formulas stand only here. They are derived from tensor2tensor's language model and from BERT.
"""

import pytest
import torch

from models.bert_heads import PretrainingModel
from models.measure import forward_flops, parameter_counts
from models.transformer import Decoder, Encoder
from tests.models.conftest import DECODER, ENCODER

LM1B = {"vocabulary_size": 32768, "layers": 6, "feedforward_size": 1024}
# Vocabulary, layers, embedding size, width, feed-forward size of the models in conftest.py.
V, LAYERS, D, W, F = 23, 2, 13, 15, 17
BERT_V, BERT_D, POSITIONS, TYPES = 29, 15, 13, 2


def _meta(kind, **sizes):
    with torch.device("meta"):
        return kind(**sizes)


@pytest.mark.parametrize("tie", [True, False], ids=["tied", "untied"])
def test_counts_equal_the_closed_form(tie):
    embedding = V * D * (1 if tie else 2)
    blocks = LAYERS * (4 * D * W + 2 * D * F + F + D + 4 * D) + 2 * D
    assert parameter_counts(_meta(Decoder, **DECODER, tie_embeddings=tie)) == {
        "params_total": embedding + blocks,
        "params_embedding": embedding,
        "params_non_embedding": blocks,
        "params_attention": LAYERS * 4 * D * W,
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
    sizes = {**LM1B, "embedding_size": embedding_size, "heads": heads, "head_size": head_size}
    tied, untied = (parameter_counts(_meta(Decoder, **sizes, tie_embeddings=t)) for t in (1, 0))
    counts = (tied["params_total"], untied["params_total"], tied["params_non_embedding"])
    assert tuple(round(count / 1e6, 2) for count in counts) == millions
    assert tied["params_non_embedding"] == untied["params_non_embedding"]


@pytest.mark.parametrize("tie", [True, False], ids=["tied", "untied"])
def test_flops_equal_the_closed_form(tie):
    rows, length = 2, 7
    model = _meta(Decoder, **DECODER, tie_embeddings=tie)
    tokens_BT = torch.zeros(rows, length, dtype=torch.long, device="meta")
    per_position = LAYERS * (8 * D * W + 4 * W * length + 4 * D * F) + 2 * D * V
    found = forward_flops(lambda: model.logits(model(tokens_BT, tokens_BT, tokens_BT)))
    assert found == rows * length * per_position


def test_encoder_counts_equal_the_closed_form():
    d, w = BERT_D, W
    embedding = (BERT_V + POSITIONS + TYPES) * d
    block = 3 * (d * w + w) + (w * d + d) + (2 * d * F + F + d) + 4 * d
    pooler, masked_tokens, next_sentence = d**2 + d, d**2 + d + 2 * d + BERT_V, 2 * d + 2
    heads = pooler + masked_tokens + next_sentence
    counts = parameter_counts(PretrainingModel(_meta(Encoder, **ENCODER)))
    assert counts["params_embedding"] == embedding
    assert counts["params_total"] == embedding + 2 * d + LAYERS * block + heads


def test_encoder_flops_equal_the_closed_form():
    rows, length, masked = 5, 11, 3
    with torch.device("meta"):
        model = PretrainingModel(Encoder(**ENCODER))
        tokens_BT = torch.zeros(rows, length, dtype=torch.long)
        places_BM = torch.zeros(rows, masked, dtype=torch.long)

    def forward():
        hidden_BTD = model(tokens_BT, tokens_BT, tokens_BT == 0)
        model.token_logits(hidden_BTD, places_BM)
        model.next_logits(hidden_BTD)

    d = BERT_D
    blocks = LAYERS * length * (8 * d * W + 4 * W * length + 4 * d * F)
    on_top = masked * (2 * d * d + 2 * d * BERT_V) + 2 * d * d + 2 * d * 2
    assert forward_flops(forward) == rows * (blocks + on_top)
