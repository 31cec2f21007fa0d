"""Training steps, which call the hooks of a TaskModule, and the Lightning Fabric for them."""

from __future__ import annotations

import logging
import os
from typing import Any

import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins.environments import LightningEnvironment
from torch import Tensor

from tasks import ranks
from tasks.batch import Batch, split
from tasks.config.sections import TrainerSection
from tasks.module import TaskModule


class Steps:
    """A callable that takes one training step in each call.

    Args:
        parts: the number of micro-batches into which a step splits this rank's rows. If there are
            fewer rows, each row is a micro-batch.
    """

    def __init__(self, fabric: Fabric, module: TaskModule, parts: int = 1) -> None:
        self.fabric, self.module, self.parts = fabric, module, parts
        wrapped, self.optimizer = fabric.setup(module, module.configure_optimizers())
        self._wrapped: Any = wrapped  # the module, or DDP around it

    def __call__(self, number: int, batch: Batch) -> Tensor:
        """Take step `number`, counted from 0, on `batch`, which has the rows of this rank.

        Returns:
            The loss of the whole batch of all ranks, on the device.
        """
        self.module.on_train_batch_start(batch, number)
        return self.update(number, batch)

    def update(self, number: int, batch: Batch) -> Tensor:
        """Compute the gradients, update the weights, and return the loss of the whole batch.

        What this method computes does not depend on `number`, so a CUDA graph can replay it for any
        step.
        """
        self.optimizer.zero_grad()
        # The loss of each micro-batch is divided by the number of targets in the whole batch, so
        # that the losses add up to the loss of the batch.
        divisors = self.module.divisors(batch)
        parts = split(batch, self.parts)
        losses = []
        for part in parts:
            # The ranks exchange gradients only once, after the last micro-batch.
            early = part is not parts[-1]
            with self.fabric.no_backward_sync(self._wrapped, enabled=early):
                with self.fabric.autocast(), self.module.autocast():
                    loss = self._wrapped.training_step(part, number, divisors)
                self.fabric.backward(loss)
            losses.append(loss.detach())
        self.module.configure_gradient_clipping(self.optimizer)
        self.optimizer.step()
        return ranks.mean(torch.stack(losses).sum())

    def can_capture(self) -> bool:
        """Return whether CUDA graphs are enabled, and a graph can capture a step.

        Capture requires that a single GPU computes all rows at once, without micro-batches, and
        that the optimizer supports CUDA graphs.
        """
        # The optimizer must have the option `capturable`, which Muon lacks.
        capturable = all("capturable" in group for group in self.optimizer.param_groups)
        enabled = capturable and self.module.config.trainer.cuda_graph
        single = self.fabric.device.type == "cuda" and ranks.world() == self.parts == 1
        return enabled and single


def fabric_for(section: TrainerSection, accelerator: str) -> Fabric:
    """Return a Fabric that runs the model on one device, or replicas of it on several devices."""
    # Hide Fabric's INFO messages, which only repeat settings of the config.
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    # Remove the variables that the command `fabric run` sets, because they would override the
    # arguments below.
    for name in [one for one in os.environ if one.startswith("LT_")]:
        del os.environ[name]
    fabric = Fabric(
        accelerator=accelerator,
        devices=section.devices,
        num_nodes=section.num_nodes,
        strategy="ddp" if ranks.world() > 1 else "auto",
        # Do not use Fabric's mixed precision, which would cast batches. `update` turns on autocast.
        precision="64-true" if section.precision == "64-true" else "32-true",
        # By default, Fabric would take the tasks of a Slurm job for ranks. LightningEnvironment
        # reads the variables of the ranks that `distributed.supervise` has started.
        plugins=[LightningEnvironment()],
    )
    fabric.launch()
    return fabric
