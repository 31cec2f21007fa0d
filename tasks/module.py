"""The one LightningModule: a task's model under a task's loss, whatever the task is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from tasks import ranks
from tasks.evaluation import moved
from tasks.optim import adamw
from tasks.seeds import derive
from tasks.task import Batch, Task


class TrainingModule(pl.LightningModule):
    """One optimizer step a batch. Data, dropout and learning rate are functions of the step."""

    def __init__(self, task: Task, model: nn.Module) -> None:
        super().__init__()
        self.task = task
        self.model = model

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        # Each rank draws its own dropout; the first draws that of a run on one device.
        rank = [ranks.rank()] if ranks.rank() else []
        _seed(derive(self.task.config.seed, "step", self.global_step + 1, *rank))
        return ranks.with_value_of_all(self.task.loss(self.model, batch))

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
