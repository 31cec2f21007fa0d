"""Functions that count the parameters, FLOPs and cache bytes of a model."""

from collections.abc import Callable
from typing import Any

from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode


def parameter_counts(model: Any) -> dict[str, int]:
    """Count the parameters of a model. A shared parameter counts once.

    Returns:
        A dict with the keys:

        - params_total: all parameters.
        - params_embedding: those that the model's method `embedding_parameters` returns.
        - params_non_embedding: all others.
        - params_attention: those of all submodules named `attention`. If the model has no such
          submodule, the key is missing.
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
    """Return cache_bytes_per_token, the size of the KV cache with two bytes per element.

    Return {} for a model without the attribute `cached_numbers`, such as an encoder.
    """
    numbers = getattr(model, "cached_numbers", None)
    return {} if numbers is None else {"cache_bytes_per_token": 2 * numbers}


def forward_flops(call: Callable[[], object]) -> int:
    """Return the number of floating-point operations in the matrix products of `call()`.

    A multiplication and an addition count as two operations. In attention, masked pairs count, too.
    `call()` may use meta tensors, so that nothing is computed.
    """
    counter = FlopCounterMode(display=False)
    # With the MATH backend, attention counts the same for every mask, head size and device.
    with sdpa_kernel(SDPBackend.MATH), counter:
        call()
    return int(counter.get_total_flops())
