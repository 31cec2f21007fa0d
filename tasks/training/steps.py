"""Training steps, which call the hooks of a TaskModule, and the Lightning Fabric that runs them."""

from __future__ import annotations

import logging
import os
from typing import Any

import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins import DoublePrecision, Precision
from lightning_fabric.plugins.environments import LightningEnvironment
from torch import Tensor

from tasks import ranks
from tasks.batch import Batch
from tasks.config.sections import TrainerSection
from tasks.module import TaskModule


class Steps:
    """A callable that takes one training step at a time.

    Args:
        parts: the number of parts into which a step splits this rank's rows; at most one per row.
    """

    def __init__(self, fabric: Fabric, module: TaskModule, parts: int = 1) -> None:
        self.fabric, self.module, self.parts = fabric, module, parts
        wrapped, self.optimizer = fabric.setup(module, module.configure_optimizers())
        self._wrapped: Any = wrapped  # the module, or DDP around it

    def __call__(self, number: int, batch: Batch) -> Tensor:
        """Take step `number` (from 0) on `batch`, this rank's rows.

        Returns:
            The loss of the whole batch, over all ranks, on the device.
        """
        self.module.on_train_batch_start(batch, number)
        return self.update(number, batch)

    def update(self, number: int, batch: Batch) -> Tensor:
        """Compute the gradients, update the weights and return the loss of the whole batch.

        This part of a step does not depend on its number, so a CUDA graph can capture it.
        """
        self.optimizer.zero_grad()
        if self.parts == 1:
            loss = self._backward(number, batch)
        else:
            loss = self._backward_in_parts(number, batch)
        self.module.configure_gradient_clipping(self.optimizer)
        self.optimizer.step()
        return ranks.mean(loss)

    def can_capture(self, trainer: TrainerSection) -> bool:
        """Return whether CUDA graphs are enabled and can capture a step.

        They need a single GPU that computes all rows at once.
        """
        alone = ranks.world() == 1 and self.parts == 1
        # The optimizer must have the option `capturable`, which Muon lacks.
        capturable = all("capturable" in group for group in self.optimizer.param_groups)
        return (
            trainer.cuda_graph
            and alone
            and capturable
            and self.fabric.device.type == "cuda"
        )

    def _backward(
        self, number: int, batch: Batch, divisors: list[Tensor] | None = None
    ) -> Tensor:
        """Add the gradients of a batch to those of the parameters, and return the batch's loss."""
        with self.fabric.autocast(), self.module.autocast():
            loss: Tensor = self._wrapped.training_step(batch, number, divisors)
        self.fabric.backward(loss)
        return loss.detach()

    def _backward_in_parts(self, number: int, batch: Batch) -> Tensor:
        """Split the batch and add the gradients of its parts. Return the sum of their losses.

        Divide each part's loss by the number of targets in the whole batch. The ranks exchange
        gradients once, after the last part.
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
    """Return the Fabric that places the model on its device, or a replica on each device."""
    # Fabric's INFO messages only repeat settings that the config has chosen.
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    # The command `fabric run` sets these variables. They would override the arguments below.
    for name in [one for one in os.environ if one.startswith("LT_")]:
        del os.environ[name]
    # Fabric's mixed precision would cast batches, so the module turns on autocast itself.
    precision = DoublePrecision() if section.precision == "64-true" else Precision()
    fabric = Fabric(
        accelerator=accelerator,
        devices=section.devices,
        num_nodes=section.num_nodes,
        strategy="ddp" if ranks.world() > 1 else "auto",
        # Inside a Slurm job, Fabric would detect Slurm's tasks. LightningEnvironment detects the
        # ranks that `distributed.supervise` has started.
        plugins=[precision, LightningEnvironment()],
    )
    fabric.launch()
    return fabric
