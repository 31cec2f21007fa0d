"""AdamW (Loshchilov and Hutter, 2019)."""

from collections.abc import Iterable

import torch
from torch import nn

from tasks.config.sections import OptimizerSection

FUSED = ("cpu", "cuda")


def optimizer(module: nn.Module, section: OptimizerSection) -> torch.optim.AdamW:
    """Return AdamW for all trainable parameters of a module."""
    return of(module.named_parameters(), section)


def of(
    named: Iterable[tuple[str, nn.Parameter]], section: OptimizerSection
) -> torch.optim.AdamW:
    """Return AdamW for the named parameters that are trainable.

    Weight decay is decoupled and scaled by the learning rate. As in BERT, it applies to matrices,
    and not to LayerNorms and biases. A bias that is a matrix is not decayed either.
    """
    trained = [(name, p) for name, p in named if p.requires_grad]
    decayed = [p for name, p in trained if p.ndim >= 2 and not name.endswith("bias")]
    rest = [p for name, p in trained if p.ndim < 2 or name.endswith("bias")]
    first, second = section.betas
    return torch.optim.AdamW(
        [
            {"params": decayed, "weight_decay": section.weight_decay},
            {"params": rest, "weight_decay": 0.0},
        ],
        lr=section.learning_rate,
        betas=(first, second),
        eps=section.epsilon,
        fused=all(p.device.type in FUSED for _, p in trained),
    )
