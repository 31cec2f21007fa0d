"""Parameter counts of language models equal closed forms, and the sizes that are published.

BERT's counts are in tests/tasks/pretraining, FLOPs there and in tests/tasks/size_server.
"""

import pytest
import torch

from models.measure import parameter_counts
from models.transformer import Decoder
from tests.models.conftest import DECODER

LM1B = {"vocabulary_size": 32768, "layers": 6, "feedforward_size": 1024}
# Vocabulary, layers, embedding size, width, feed-forward size of the model in conftest.py.
V, LAYERS, D, W, F = 23, 2, 13, 15, 17


def _counts(**sizes):
    with torch.device("meta"):
        return parameter_counts(Decoder(**sizes))


@pytest.mark.parametrize("tie", [True, False], ids=["tied", "untied"])
def test_counts_equal_the_closed_form(tie):
    embedding = V * D * (1 if tie else 2)
    blocks = LAYERS * (4 * D * W + 2 * D * F + F + D + 4 * D) + 2 * D
    assert _counts(**DECODER, tie_embeddings=tie) == {
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
    tied, untied = (_counts(**sizes, tie_embeddings=t) for t in (1, 0))
    counts = (tied["params_total"], untied["params_total"], tied["params_non_embedding"])
    assert tuple(round(count / 1e6, 2) for count in counts) == millions
    assert tied["params_non_embedding"] == untied["params_non_embedding"]
