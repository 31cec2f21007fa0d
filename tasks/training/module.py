"""The LightningModule of every task: a model, the loss of a step, the optimizer."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from tasks import ranks
from tasks.batch import Batch
from tasks.config.sections import OptimizerSection
from tasks.seeds import derive
from tasks.task import Mean, Task

FUSED = ("cpu", "cuda")


class TrainingModule(pl.LightningModule):
    """The model of a task and the loss of a step, a function of the step's number.

    `micro_batches`: the parts in which a step computes its rows, at most one a row.
    """

    def __init__(self, task: Task, model: nn.Module, micro_batches: int = 1) -> None:
        super().__init__()
        self.task = task
        self.model = model
        self._parts = micro_batches

    def training_step(self, batch: Batch, step: int) -> Tensor:
        """Return the loss of this rank's rows; the mean over the ranks is that of the batch."""
        # Each rank draws its own dropout; the first draws that of a run on one device.
        rank = [ranks.rank()] if ranks.rank() else []
        seed = derive(self.task.config.seed, "step", step, *rank)
        # As torch.manual_seed, which for devices not in use keeps the seed and a formatted stack:
        # more work than a small step.
        torch.default_generator.manual_seed(seed)
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(seed)
        *early, last = ranks.split(batch, self._parts)
        if not early:
            return summed(self.task.loss(self.model, last))
        # The gradients of all parts but the last are in place before its backward pass.
        # `autograd.grad` triggers no hook of DDP, so the ranks synchronize once, in the last part.
        parameters = [one for one in self.model.parameters() if one.requires_grad]
        before: list[Mean] = []
        gradients: list[list[Tensor | None]] = []
        for part in early:
            means = self.task.loss(self.model, part)
            for place, mean in enumerate(means):
                more = place + 1 < len(means)
                own = torch.autograd.grad(
                    mean.total, parameters, retain_graph=more, allow_unused=True
                )
                done = Mean(mean.total.detach(), mean.count)
                if place == len(before):
                    before.append(done)
                    gradients.append(list(own))
                else:
                    before[place] += done
                    gradients[place] = list(map(_sum, gradients[place], own))
        means = self.task.loss(self.model, last)
        whole = [own + earlier for own, earlier in zip(means, before, strict=True)]
        divisors = [_divisor(mean) for mean in whole]
        for parameter, *of_means in zip(parameters, *gradients, strict=True):
            parameter.grad = None
            for gradient, divisor in zip(of_means, divisors, strict=True):
                if gradient is not None:
                    parameter.grad = _sum(parameter.grad, gradient / divisor)
        return summed(whole, divisors)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return adamw(self.model, self.task.config.optimizer)


def summed(means: Sequence[Mean], divisors: Sequence[Tensor] | None = None) -> Tensor:
    """Return the sum of the means, each over all ranks."""
    divisors = divisors or [_divisor(mean) for mean in means]
    return functools.reduce(
        operator.add, (mean.total / by for mean, by in zip(means, divisors, strict=True))
    )


def _divisor(mean: Mean) -> Tensor:
    """Return the divisor of each rank's total whose quotients average to the mean of all ranks."""
    total, count = mean.total, mean.count
    if not isinstance(count, Tensor):  # made on the device, so that the host does not wait
        count = torch.full((), count, dtype=total.dtype, device=total.device)
    return ranks.mean(count.to(total.dtype)).clamp(min=1 / ranks.world())


def _sum(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    if one is None or other is None:
        return other if one is None else one
    return one.add_(other)


def adamw(model: nn.Module, section: OptimizerSection) -> torch.optim.AdamW:
    """Return AdamW: decoupled decay, times the learning rate, on matrices only.

    Biases and LayerNorms are not decayed (BERT's convention), however many axes a bias has.
    """
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    decayed = [p for name, p in named if p.ndim >= 2 and not name.endswith("bias")]
    rest = [p for name, p in named if p.ndim < 2 or name.endswith("bias")]
    first, second = section.betas
    return torch.optim.AdamW(
        [
            {"params": decayed, "weight_decay": section.weight_decay},
            {"params": rest, "weight_decay": 0.0},
        ],
        lr=section.learning_rate,
        betas=(first, second),
        eps=section.epsilon,
        fused=all(p.device.type in FUSED for _, p in named),
    )
