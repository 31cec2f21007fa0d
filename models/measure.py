"""Counts of parameters, FLOPs and cache bytes, measured on the model itself."""

from collections.abc import Callable
from typing import Any

from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode


def parameter_counts(model: Any) -> dict[str, int]:
    """Return params_total, params_embedding, params_non_embedding and params_attention.

    Shared parameters count once. Attention parameters are those of submodules named `attention`,
    including biases; a model without such names has no count of them.
    `model.embedding_parameters()` lists the embeddings.
    """
    total = sum(p.numel() for p in model.parameters())
    embedding = sum(p.numel() for p in model.embedding_parameters())
    named = model.named_parameters()
    attention = sum(p.numel() for name, p in named if ".attention." in f".{name}")
    return {
        "params_total": total,
        "params_embedding": embedding,
        "params_non_embedding": total - embedding,
        **({"params_attention": attention} if attention else {}),
    }


def cache_bytes(model: Any) -> dict[str, int]:
    """Return cache_bytes_per_token: the size of the KV cache per token, at two bytes a number.

    Return {} if the model has no `cached_numbers`, such as an encoder, which does not decode.
    """
    numbers = getattr(model, "cached_numbers", None)
    return {} if numbers is None else {"cache_bytes_per_token": 2 * numbers}


def forward_flops(call: Callable[[], object]) -> int:
    """Return the number of floating-point operations in the matrix products of `call()`.

    A multiplication and an addition count as two. Attention counts in full, including masked pairs.
    On meta tensors, `call()` is counted but not computed.
    """
    counter = FlopCounterMode(display=False)
    # The MATH backend counts attention equally for every mask, head size and device.
    with sdpa_kernel(SDPBackend.MATH), counter:
        call()
    return int(counter.get_total_flops())
