"""The one LightningModule: a task's model under a task's loss, whatever the task is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from tasks import ranks
from tasks.batch import Batch, moved
from tasks.seeds import derive
from tasks.task import Task
from tasks.training.optimizer import adamw


class TrainingModule(pl.LightningModule):
    """One optimizer step a batch. Data, dropout and learning rate are functions of the step.

    `micro_batches`: the parts in which a step works its rows off, as far as there are as many rows.
    Up to rounding the gradient is that of the whole; dropout draws other masks.
    """

    def __init__(self, task: Task, model: nn.Module, micro_batches: int = 1) -> None:
        super().__init__()
        self.task = task
        self.model = model
        self._parts = micro_batches

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        # Each rank draws its own dropout; the first draws that of a run on one device.
        rank = [ranks.rank()] if ranks.rank() else []
        _seed(derive(self.task.config.seed, "step", self.global_step + 1, *rank))
        whole = self._parts == 1
        loss = self.task.loss(self.model, batch) if whole else self._loss_in_parts(batch)
        return ranks.with_value_of_all(loss)

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

    def optimizer_zero_grad(self, *args: Any) -> None:
        if self._parts == 1:  # else Lightning would do it between the early parts and the last
            super().optimizer_zero_grad(*args)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return adamw(self.model, self.task.config.optimizer)

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        rate = self.task.learning_rate(self.global_step + 1)
        optimizer = self.optimizers(use_pl_optimizer=False)
        assert isinstance(optimizer, torch.optim.Optimizer)
        for group in optimizer.param_groups:
            group["lr"] = rate

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        # Lightning's own clipping refuses fused optimizers in mixed precision, where only those
        # that scale gradients (bf16 does not) would go wrong.
        largest = self.task.config.optimizer.gradient_clip
        if largest is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), largest)

    def transfer_batch_to_device(
        self, batch: Batch, device: torch.device, dataloader_idx: int
    ) -> Batch:
        return moved(batch, device)

    def train_dataloader(self) -> Steps:
        return Steps(self)


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


class Steps:
    """The batches of all steps from where training stands: one epoch without end.

    There is no position to save: Lightning asks for the iterator after it has restored the step.
    """

    def __init__(self, module: TrainingModule) -> None:
        self._module = module

    def __iter__(self) -> Iterator[Batch]:
        step = self._module.global_step
        while True:
            step += 1
            yield ranks.part(self._module.task.batch(step))
