"""Training steps, which call the hooks of a TaskModule, and the Lightning Fabric that runs them."""

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
    """A callable that takes one training step at a time.

    Args:
        parts: the number of parts into which a step splits this rank's rows. If there are fewer
            rows, each row is a part.
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

        This part is the same in every step, whatever the step's number is. So a CUDA graph can
        capture it.
        """
        self.optimizer.zero_grad()
        # Divide the loss of each part by the number of targets in the whole batch.
        divisors = self.module.divisors(batch)
        parts = split(batch, self.parts)
        losses = []
        for part in parts:
            # The ranks exchange gradients once, after the last part.
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
        """Return whether CUDA graphs are enabled and can capture a step.

        A graph can capture a step only if a single GPU computes all rows at once.
        """
        # The optimizer must have the option `capturable`, which Muon lacks.
        capturable = all("capturable" in group for group in self.optimizer.param_groups)
        enabled = capturable and self.module.config.trainer.cuda_graph
        single = self.fabric.device.type == "cuda" and ranks.world() == self.parts == 1
        return enabled and single


def fabric_for(section: TrainerSection, accelerator: str) -> Fabric:
    """Return the Fabric that places the model on its device, or a replica on each device."""
    # Fabric's INFO messages only repeat settings that the config has chosen.
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    # The command `fabric run` sets these variables. They would override the arguments below.
    for name in [one for one in os.environ if one.startswith("LT_")]:
        del os.environ[name]
    fabric = Fabric(
        accelerator=accelerator,
        devices=section.devices,
        num_nodes=section.num_nodes,
        strategy="ddp" if ranks.world() > 1 else "auto",
        # Fabric's mixed precision would cast batches, so the module turns on autocast itself.
        precision="64-true" if section.precision == "64-true" else "32-true",
        # Inside a Slurm job, Fabric would detect Slurm's tasks. LightningEnvironment detects the
        # ranks that `distributed.supervise` has started.
        plugins=[LightningEnvironment()],
    )
    fabric.launch()
    return fabric
