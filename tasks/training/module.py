"""The one LightningModule, whatever the task is: its model under its loss, and the optimizer."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from dataclasses import dataclass

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
    """The loss of a step (`tasks.training.loop` does all else), as a function of its number.

    `micro_batches`: the parts in which a step works its rows off, as far as there are as many rows.
    Up to rounding the gradient is that of the whole; dropout draws other masks.
    """

    def __init__(self, task: Task, model: nn.Module, micro_batches: int = 1) -> None:
        super().__init__()
        self.task = task
        self.model = model
        self._parts = micro_batches

    def training_step(self, batch: Batch, step: int) -> Tensor:
        """Return the loss of this rank's rows, so that the mean over the ranks is the batch's."""
        # Each rank draws its own dropout; the first draws that of a run on one device.
        rank = [ranks.rank()] if ranks.rank() else []
        _seed(derive(self.task.config.seed, "step", step, *rank))
        *early, last = ranks.split(batch, self._parts)
        if not early:
            return summed(self.task.loss(self.model, last))
        return self._loss_in_parts(early, last)

    def _loss_in_parts(self, early: list[Batch], last: Batch) -> Tensor:
        """Return the loss of the batch; all of its gradient but the last part's is there already.

        Taken by `autograd.grad`, which no hook of DDP sees: the ranks meet once, in the last part.
        """
        parameters = [one for one in self.model.parameters() if one.requires_grad]
        taken = (_taken(self.task.loss(self.model, part), parameters) for part in early)
        sums = functools.reduce(_joined, taken)
        means = self.task.loss(self.model, last)
        pairs = zip(means, sums, strict=True)
        whole = [Mean(own.total + before.total, own.count + before.count) for own, before in pairs]
        divisors = [_divisor(mean) for mean in whole]
        for place, parameter in enumerate(parameters):
            parameter.grad = None
            for gradients, divisor in zip((s.gradients for s in sums), divisors, strict=True):
                if (gradient := gradients[place]) is not None:
                    parameter.grad = _sum(parameter.grad, gradient / divisor)
        return summed(whole, divisors)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return adamw(self.model, self.task.config.optimizer)


def summed(means: Sequence[Mean], divisors: Sequence[Tensor] | None = None) -> Tensor:
    """Return the sum of the means, each over the things of all ranks."""
    divisors = divisors or [_divisor(mean) for mean in means]
    return functools.reduce(
        operator.add, (mean.total / by for mean, by in zip(means, divisors, strict=True))
    )


def _divisor(mean: Mean) -> Tensor:
    """Return by what the totals of each rank are divided to have, on average, the mean of all."""
    total, count = mean.total, mean.count
    if not isinstance(count, Tensor):  # made on the device, which is not waited for then
        count = torch.full((), count, dtype=total.dtype, device=total.device)
    return ranks.mean(count.to(total.dtype)).clamp(min=1 / ranks.world())


@dataclass(frozen=True)
class _Sum:
    """A `Mean` of some rows, and the gradients of its total."""

    total: Tensor
    count: Tensor | int
    gradients: list[Tensor | None]


def _taken(means: Sequence[Mean], parameters: list[nn.Parameter]) -> list[_Sum]:
    found = []
    for place, mean in enumerate(means, start=1):
        more = place < len(means)
        grads = torch.autograd.grad(mean.total, parameters, retain_graph=more, allow_unused=True)
        found.append(_Sum(mean.total.detach(), mean.count, list(grads)))
    return found


def _joined(some: list[_Sum], more: list[_Sum]) -> list[_Sum]:
    return [
        _Sum(a.total + b.total, a.count + b.count, list(map(_sum, a.gradients, b.gradients)))
        for a, b in zip(some, more, strict=True)
    ]


def _sum(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    if one is None or other is None:
        return other if one is None else one
    return one.add_(other)


def adamw(model: nn.Module, section: OptimizerSection) -> torch.optim.AdamW:
    """Return the optimizer; decay is decoupled, times the learning rate, on matrices only.

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


def _seed(seed: int) -> None:
    """Do what torch.manual_seed does where something is drawn.

    For each device that is not in use yet, it would keep the seed and a formatted stack for later:
    more work than a small step.
    """
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)
