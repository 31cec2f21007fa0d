"""The one LightningModule: a task's model under a task's loss, whatever the task is."""

from __future__ import annotations

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from tasks import ranks
from tasks.batch import Batch
from tasks.seeds import derive
from tasks.task import Task
from tasks.training.optimizer import adamw


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
        if self._parts == 1:
            return self.task.loss(self.model, batch)
        return self._loss_in_parts(batch)

    def _loss_in_parts(self, batch: Batch) -> Tensor:
        """Return the loss of the batch; all of its gradient but the last part's is there already.

        Taken by `autograd.grad`, which no hook of DDP sees: the ranks meet once, in the last part.
        """
        parameters = [one for one in self.model.parameters() if one.requires_grad]
        gradients: list[Tensor | None] = [None] * len(parameters)
        *early, last = ranks.split(batch, self._parts)
        counts, earlier = self.task.counts(batch), torch.zeros((), device=self.device)
        for part in early:
            with ranks.one_of_parts(counts):
                loss = self.task.loss(self.model, part)
            new = torch.autograd.grad(loss, parameters, allow_unused=True)
            gradients = [_sum(*pair) for pair in zip(gradients, new, strict=True)]
            earlier += loss.detach()
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        with ranks.one_of_parts(counts):
            return self.task.loss(self.model, last) + earlier

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return adamw(self.model, self.task.config.optimizer)


def _seed(seed: int) -> None:
    """Do what torch.manual_seed does where something is drawn.

    For each device that is not in use yet, it would keep the seed and a formatted stack for later:
    more work than a small step.
    """
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)


def _sum(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    if one is None or other is None:
        return other if one is None else one
    return one.add_(other)
