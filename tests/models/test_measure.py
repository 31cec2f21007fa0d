"""Counts of parameters equal published numbers. test_cache.py tests cached bytes.

tests/tasks/pretraining tests BERT's counts. tests/tasks/size_server and that folder test FLOPs.
tests/tasks/export tests that modern decoders compute the same as Hugging Face's `transformers`.
"""

from functools import partial

import torch

from benchmarks.step import TODAY
from models.attention.grouped_query import GroupedQueryAttention
from models.measure import parameter_counts
from models.transformer import Decoder

LLAMA3 = {
    "vocabulary_size": 128_256, "layers": 32, "embedding_size": 4096, "heads": 32,
    "head_size": 128, "feedforward_size": 14_336, "tie_embeddings": False,
    "attention": partial(GroupedQueryAttention, key_value_heads=8),
}  # fmt: skip


def test_a_decoder_of_today_has_its_published_parameters():
    with torch.device("meta"):
        model = Decoder(**LLAMA3, **TODAY)
    assert parameter_counts(model)["params_total"] == 8_030_261_248
