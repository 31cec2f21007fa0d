"""Counts of parameters equal published numbers. test_cache.py tests cached bytes.

tests/tasks/pretraining tests BERT's counts. tests/tasks/size_server and that folder test FLOPs.
tests/tasks/export tests that modern decoders compute the same as Hugging Face's `transformers`.
"""

from functools import partial

import pytest
import torch

from benchmarks.step import TODAY
from models.attention.grouped_query import GroupedQueryAttention
from models.measure import parameter_counts
from models.transformer import Decoder

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
PUBLISHED = {"Qwen3-0.6B": (QWEN3, 596_049_920), "Llama 3 8B": (LLAMA3, 8_030_261_248)}


@pytest.mark.parametrize(("sizes", "published"), PUBLISHED.values(), ids=PUBLISHED)
def test_decoders_of_today_have_their_published_parameters(sizes, published):
    with torch.device("meta"):
        model = Decoder(**sizes, **TODAY)
    assert parameter_counts(model)["params_total"] == published
