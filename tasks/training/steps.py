"""Training steps: the hooks of a TaskModule on Lightning Fabric, and the Fabric of a run."""

from __future__ import annotations

import logging
import os
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
    """A callable that takes one training step at a time.

    Args:
        parts: the number of parts into which a step splits this rank's rows; at most one per row.
    """

    def __init__(self, fabric: Fabric, module: TaskModule, parts: int = 1) -> None:
        self.fabric, self.module, self.parts = fabric, module, parts
        wrapped, self.optimizer = fabric.setup(module, module.configure_optimizers())
        self._wrapped: Any = wrapped  # the module, or DDP around it

    def __call__(self, number: int, batch: Batch) -> Tensor:
        """Take step `number` (from 0) on `batch`, the rows of this rank.

        Return the loss of the whole batch, on the device.
        """
        self.module.on_train_batch_start(batch, number)
        return self.update(number, batch)

    def update(self, number: int, batch: Batch) -> Tensor:
        """Compute the gradients, update the weights and return the loss of the whole batch.

        Every step does the same work here, so a CUDA graph can capture it.
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
        """Return whether CUDA graphs are on and can capture a step.

        They can if a single GPU computes all rows at once.
        """
        alone = ranks.world() == 1 and self.parts == 1
        # Muon has no option `capturable`.
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
        """Add the gradients of `batch` to those of the parameters; return its loss."""
        with self.fabric.autocast():
            loss: Tensor = self._wrapped.training_step(batch, number, divisors)
        self.fabric.backward(loss)
        return loss.detach()

    def _backward_in_parts(self, number: int, batch: Batch) -> Tensor:
        """Count the targets of the whole batch, then add the gradients of one part after another.

        The ranks exchange their gradients only once, after the last part.
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
    """Return the Fabric that places a model on its device, or a replica on each of several."""
    # Fabric's INFO messages describe settings that are chosen on purpose here.
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    for name in [one for one in os.environ if one.startswith("LT_")]:
        del os.environ[name]  # of `fabric run`: they would replace the arguments below
    precision = DoublePrecision() if section.precision == "64-true" else Precision()
    if section.precision == "bf16-mixed":
        precision = Autocast("bf16-mixed", accelerator)
    fabric = Fabric(
        accelerator=accelerator,
        devices=section.devices,
        num_nodes=section.num_nodes,
        strategy="ddp" if ranks.world() > 1 else "auto",
        # Inside a Slurm job Fabric would choose Slurm's environment. LightningEnvironment sees that
        # the ranks are already running.
        plugins=[precision, LightningEnvironment()],
    )
    fabric.launch()
    return fabric


class Autocast(MixedPrecision):
    """bfloat16 mixed precision that neither casts batches nor caches cast weights."""

    def convert_input(self, data: Batch) -> Batch:
        return data

    def forward_context(self) -> torch.autocast:
        return torch.autocast(self.device, torch.bfloat16, cache_enabled=False)
