"""Parameter, FLOP and cache counts, measured on the model itself."""

from collections.abc import Callable
from typing import Any

from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode


def parameter_counts(model: Any) -> dict[str, int]:
    """Return params_total, params_embedding, _non_embedding and _attention; shared ones count once.

    Those of attention are the parameters below a part of that name, biases included. The model is a
    Module whose `embedding_parameters()` says which of its parameters are embeddings.
    """
    total = sum(p.numel() for p in model.parameters())
    embedding = sum(p.numel() for p in model.embedding_parameters())
    named = model.named_parameters()
    return {
        "params_total": total,
        "params_embedding": embedding,
        "params_non_embedding": total - embedding,
        "params_attention": sum(p.numel() for name, p in named if ".attention." in f".{name}"),
    }


def cache_bytes(model: Any) -> dict[str, int]:
    """Return cache_bytes_per_token: what decoding keeps of a token, at two bytes a number.

    Empty for a model that says nothing of it (`cached_numbers`): an encoder decodes nothing.
    """
    numbers = getattr(model, "cached_numbers", None)
    return {} if numbers is None else {"cache_bytes_per_token": 2 * numbers}


def forward_flops(call: Callable[[], object]) -> int:
    """Return the floating-point operations of the matrix products that `call()` computes.

    A multiplication and an addition are two. Attention counts in full, masked pairs included. Run
    it on meta tensors: nothing is computed, only counted.
    """
    counter = FlopCounterMode(display=False)
    # As plain matrix products attention is counted alike for every mask, head size and device.
    with sdpa_kernel(SDPBackend.MATH), counter:
        call()
    return int(counter.get_total_flops())
