"""Muon (Jordan et al., 2024) for a model's matrices, and AdamW for everything else."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.optim import Muon, Optimizer

from sweeper.store.errors import invalid_value
from tasks.config.sections import OptimizerSection
from tasks.optimizers import adamw


def optimizer(module: Any, section: OptimizerSection) -> Optimizer:
    """Return Muon for all matrices except embeddings and biases, and AdamW for the other weights.

    Muon's updates are scaled such that their root mean square equals that of AdamW's updates (Liu
    et al., 2025, equation 4). So both optimizers can use the learning rate and the weight decay of
    `section`. Muon's momentum is 0.95.
    """
    embeddings = {id(weight) for weight in module.embedding_parameters()}
    # Recognise biases by name, because the content bias of collaborative attention is a matrix.
    matrices = {
        name: weight
        for name, weight in module.named_parameters()
        if weight.requires_grad
        and weight.ndim == 2
        and not name.endswith("bias")
        and id(weight) not in embeddings
    }
    if not matrices:
        expected = "a model with matrices between its embeddings and its outputs"
        raise invalid_value(
            "optimizer.name", "muon", expected, "choose optimizer=inverse_sqrt"
        )

    muon = Muon(
        matrices.values(),
        lr=section.learning_rate,
        weight_decay=section.weight_decay,
        adjust_lr_fn="match_rms_adamw",
    )
    rest = [one for one in module.named_parameters() if one[0] not in matrices]
    return Together([muon, adamw.of(rest, section)])


class Together(Optimizer):
    """An optimizer that consists of several optimizers for different parameters."""

    def __init__(self, parts: Sequence[Optimizer]) -> None:
        super().__init__([group for part in parts for group in part.param_groups], {})
        self.parts = parts

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Step each of the optimizers.

        As in every optimizer of PyTorch, `closure` computes the gradients and returns the loss. If
        it is given, call it first, and return the loss.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        # Loading a checkpoint replaces the groups and the state of this optimizer. So pass them to
        # its parts before each step.
        groups = iter(self.param_groups)
        for part in self.parts:
            part.state = self.state
            part.param_groups = [next(groups) for _ in part.param_groups]
            part.step()
        return loss
