"""A training step on Fabric, by the hooks of a TaskModule, and the Fabric that places the model."""

from __future__ import annotations

import logging
from typing import Any

import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins import DoublePrecision, MixedPrecision, Precision
from lightning_fabric.plugins.environments import LightningEnvironment
from torch import Tensor

from tasks import ranks
from tasks.batch import Batch
from tasks.config.sections import TrainerSection
from tasks.module import TaskModule


class Steps:
    """Takes the steps of a training, one at a time.

    `parts`: the parts in which a step computes this rank's rows, at most one for each row.
    """

    def __init__(self, fabric: Fabric, module: TaskModule, parts: int = 1) -> None:
        self.fabric, self.module, self.parts = fabric, module, parts
        wrapped, self.optimizer = fabric.setup(module, module.configure_optimizers())
        self._wrapped: Any = wrapped  # the module, or DDP around it

    def __call__(self, number: int, batch: Batch) -> Tensor:
        """Take step `number` (from 0); return the loss of the whole batch, on the device.

        `batch` has this rank's rows.
        """
        self.module.on_train_batch_start(batch, number)
        return self.update(number, batch)

    def update(self, number: int, batch: Batch) -> Tensor:
        """Compute the gradients and update the weights, which is the same work for every step."""
        self.optimizer.zero_grad()
        if self.parts == 1:
            loss = self._backward(number, batch)
        else:
            loss = self._backward_in_parts(number, batch)
        self.module.configure_gradient_clipping(self.optimizer)
        self.optimizer.step()
        return ranks.mean(loss)

    def recordable(self, trainer: TrainerSection) -> bool:
        """Return whether steps can be recorded: on one GPU that computes all rows at once."""
        alone = ranks.world() == 1 and self.parts == 1
        capturable = all("capturable" in group for group in self.optimizer.param_groups)  # not Muon
        return trainer.cuda_graph and alone and capturable and self.fabric.device.type == "cuda"

    def _backward(self, number: int, batch: Batch, divisors: list[Tensor] | None = None) -> Tensor:
        """Add to the gradients; return the loss."""
        with self.fabric.autocast():
            loss: Tensor = self._wrapped.training_step(batch, number, divisors)
        self.fabric.backward(loss)
        return loss.detach()

    def _backward_in_parts(self, number: int, batch: Batch) -> Tensor:
        """Count the targets of the whole batch, then add the gradients of one part after another.

        The ranks add their gradients up once, after the last part.
        """
        divisors = self.module.divisors(batch)
        *early, last = ranks.split(batch, self.parts)
        losses = []
        for part in early:
            with self.fabric.no_backward_sync(self._wrapped):
                losses.append(self._backward(number, part, divisors))
        losses.append(self._backward(number, last, divisors))
        return torch.stack(losses).sum()


def fabric_for(section: TrainerSection, accelerator: str) -> Fabric:
    """Return the Fabric that places a model on its device, or a copy on each of several."""
    # Its information is about choices made on purpose.
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    precision = DoublePrecision() if section.precision == "64-true" else Precision()
    if section.precision == "bf16-mixed":
        precision = Autocast("bf16-mixed", accelerator)
    fabric = Fabric(
        accelerator=accelerator,
        devices=section.devices,
        num_nodes=section.num_nodes,
        strategy="ddp" if ranks.world() > 1 else "auto",
        # Not SLURM's environment: this one finds that the ranks are started already.
        plugins=[precision, LightningEnvironment()],
    )
    fabric.launch()
    return fabric


class Autocast(MixedPrecision):
    """bfloat16 for matrix products alone: batches are not cast, and cast weights are not cached."""

    def convert_input(self, data: Batch) -> Batch:
        return data

    def forward_context(self) -> torch.autocast:
        return torch.autocast(self.device, torch.bfloat16, cache_enabled=False)
