"""Decoders of today have the published numbers of parameters and of cached bytes.

That they compute what transformers computes is in tests/tasks/export.
"""

from functools import partial

import pytest
import torch

from models.attention.grouped_query import GroupedQueryAttention
from models.attention.latent import LatentAttention
from models.attention.multi_head import MultiHeadAttention
from models.measure import cache_bytes, parameter_counts
from models.transformer import Decoder, Encoder
from tests.models.conftest import DECODER

TODAY = {
    "position_encoding": "rotary",
    "normalisation": "rms",
    "feedforward": "gated",
    "activation": "silu",
    "biases": False,
    "scale_embeddings": False,
}

SMOLLM2 = {
    "vocabulary_size": 49_152, "layers": 30, "embedding_size": 576, "heads": 9, "head_size": 64,
    "feedforward_size": 1536, "attention": partial(GroupedQueryAttention, key_value_heads=3),
}  # fmt: skip
QWEN3 = {
    "vocabulary_size": 151_936, "layers": 28, "embedding_size": 1024, "heads": 16,
    "head_size": 128, "feedforward_size": 3072,
    "attention": partial(GroupedQueryAttention, key_value_heads=8, qk_norm=True),
}  # fmt: skip
LLAMA3 = {
    "vocabulary_size": 128_256, "layers": 32, "embedding_size": 4096, "heads": 32,
    "head_size": 128, "feedforward_size": 14_336, "tie_embeddings": False,
    "attention": partial(GroupedQueryAttention, key_value_heads=8),
}  # fmt: skip


@pytest.mark.parametrize(
    ("sizes", "count"),
    [(SMOLLM2, 134_515_008), (QWEN3, 596_049_920), (LLAMA3, 8_030_261_248)],
    ids=["SmolLM2-135M", "Qwen3-0.6B", "Llama 3 8B"],
)
def test_published_decoders_have_their_published_numbers_of_parameters(sizes, count):
    with torch.device("meta"):
        model = Decoder(**sizes, **TODAY)
    assert parameter_counts(model)["params_total"] == count


DEEPSEEK_V3 = {  # dense: the cache does not depend on experts
    "vocabulary_size": 129_280, "layers": 61, "embedding_size": 7168, "heads": 128,
    "head_size": 128, "feedforward_size": 18_432,
    "attention": partial(LatentAttention, latent_size=512, query_latent_size=1536, rotary_size=64),
}  # fmt: skip


@pytest.mark.parametrize(
    ("sizes", "count"),
    [(LLAMA3, 131_072), (DEEPSEEK_V3, 70_272)],
    ids=["Llama 3 8B", "DeepSeek V3"],
)
def test_published_decoders_have_their_published_cache(sizes, count):
    with torch.device("meta"):
        model = Decoder(**sizes, **TODAY)
    assert cache_bytes(model) == {"cache_bytes_per_token": count}


def test_a_cache_is_counted_where_every_layer_says_what_it_keeps():
    sizes = {**DECODER, "heads": 6, "head_size": [[3, 5, 5, 3, 5, 2], 4]}
    uneven = Decoder(**sizes, attention=MultiHeadAttention)
    assert cache_bytes(uneven) == {"cache_bytes_per_token": 2 * 2 * (23 + 6 * 4)}

    class Silent(MultiHeadAttention):
        cached_numbers = None

    for model in (Decoder(**sizes, attention=Silent), Encoder(**sizes)):
        assert cache_bytes(model) == {}
