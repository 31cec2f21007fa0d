"""The training loop: one step, and the work between two steps.

A step asks the module (module.py) for its loss, and the module the task (tasks/<name>/task.py).
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins import DoublePrecision, MixedPrecision, Precision
from lightning_fabric.plugins.environments import LightningEnvironment
from torch import Tensor, nn

from tasks import ranks
from tasks.batch import Batch, moved
from tasks.config.sections import TrainerSection
from tasks.training.module import TrainingModule
from tasks.training.progress import Checkpointer, Recorder, RunContext


def train(
    context: RunContext,
    recorder: Recorder,
    module: TrainingModule,
    accelerator: str,
    resumed: Path | None,
) -> torch.device:
    """Train to the last step, from the checkpoint `resumed` or from step 0; return the device."""
    fabric = fabric_for(context.task.config.trainer, accelerator)
    last, optimizer = context.task.config.trainer.steps, module.configure_optimizers()
    wrapped: Any = fabric.setup_module(module)
    stepping: Any = fabric.setup_optimizers(optimizer)
    checkpointer = Checkpointer(context, recorder, module, optimizer)
    first = checkpointer.load(resumed) + 1 if resumed else 1
    recorder.begin(module.model, fabric.device, step=first - 1)
    context.interruption.check()  # a stop may come while a missed validation is made up for
    for step in range(first, last + 1):
        loss = train_step(fabric, wrapped, stepping, step)
        context.interruption.synchronize()
        recorder.after(step, loss)
        checkpointer.after(step)
        context.interruption.check()
    return fabric.device


def train_step(
    fabric: Fabric, module: TrainingModule, optimizer: torch.optim.Optimizer, step: int
) -> Tensor:
    """Take one step; return the loss of the whole batch, which stays on the device.

    The batch, the dropout and the learning rate are functions of the step, counted from 1.
    """
    task = module.task
    for group in optimizer.param_groups:
        group["lr"] = task.learning_rate(step)
    batch = moved(ranks.shard(task.data.batch(step)), fabric.device)
    optimizer.zero_grad()
    with fabric.autocast():
        loss = module.training_step(batch, step)
    fabric.backward(loss)
    clip(module, task.config.optimizer.gradient_clip)
    optimizer.step()
    return ranks.mean(loss.detach())


def clip(module: nn.Module, largest: float | None) -> None:
    """Scale gradients down to a global norm of `largest`."""
    if largest is not None:
        nn.utils.clip_grad_norm_(module.parameters(), largest)


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
