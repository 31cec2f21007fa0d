"""Parameter and FLOP counts, measured on the model itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode


class Measurable(Protocol):
    """A model that says which of its parameters are embeddings."""

    def parameters(self) -> Iterator[nn.Parameter]: ...

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]: ...

    def embedding_parameters(self) -> list[nn.Parameter]: ...


def parameter_counts(model: Measurable) -> dict[str, int]:
    """Return params_total, params_embedding, _non_embedding and _attention; shared ones count once.

    Those of attention are the parameters below a part of that name, biases included.
    """
    total = _numbers(model.parameters())
    embedding = _numbers(model.embedding_parameters())
    attention = (p for name, p in model.named_parameters() if ".attention." in f".{name}")
    return {
        "params_total": total,
        "params_embedding": embedding,
        "params_non_embedding": total - embedding,
        "params_attention": _numbers(attention),
    }


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


def _numbers(parameters: Iterable[nn.Parameter]) -> int:
    return sum(parameter.numel() for parameter in parameters)
