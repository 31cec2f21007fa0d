"""The training loop: one step, and the work between two steps.

A step asks the module for its loss, and the module the task (tasks/<name>/task.py).
"""

from __future__ import annotations

import functools
import logging
import operator
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins import DoublePrecision, MixedPrecision, Precision
from lightning_fabric.plugins.environments import LightningEnvironment
from torch import Tensor, nn

from tasks import ranks
from tasks.batch import Batch, Prefetched
from tasks.config.sections import OptimizerSection, TrainerSection
from tasks.seeds import derive
from tasks.task import Mean, Task
from tasks.training.progress import Checkpointer, Recorder, RunContext


def train(
    context: RunContext, module: TrainingModule, accelerator: str, resumed: Path | None
) -> Recorder:
    """Train to the last step, from the checkpoint `resumed` or from step 0."""
    fabric = fabric_for(context.task.config.trainer, accelerator)
    last, optimizer = context.task.config.trainer.steps, module.configure_optimizers()
    wrapped: Any = fabric.setup_module(module)
    stepping: Any = fabric.setup_optimizers(optimizer)
    recorder = Recorder(context, module.model, fabric.device)
    checkpointer = Checkpointer(context, recorder, module, optimizer)
    first = checkpointer.load(resumed) + 1 if resumed else 1
    recorder.begin(step=first - 1)
    data = context.task.data  # each rank computes the whole of a batch that cannot be split
    build = data.share if context.task.separable else data.batch
    batches = Prefetched(build, fabric.device, last)
    context.interruption.check()  # a stop may come while a missed validation is made up for
    for step in range(first, last + 1):
        loss = train_step(fabric, wrapped, stepping, step, batches.at(step))
        context.interruption.synchronize()
        recorder.after(step, loss)
        checkpointer.after(step)
        context.interruption.check()
    return recorder


def train_step(
    fabric: Fabric,
    module: TrainingModule,
    optimizer: torch.optim.Optimizer,
    step: int,
    batch: Batch,
) -> Tensor:
    """Take one step; return the loss of the whole batch, which stays on the device.

    `batch` has this rank's rows. It, the dropout and the learning rate are functions of the step,
    counted from 1.
    """
    task = module.task
    for group in optimizer.param_groups:
        group["lr"] = task.learning_rate(step)
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


FUSED = ("cpu", "cuda")


class TrainingModule(pl.LightningModule):
    """The model of a task and the loss of a step, a function of the step's number.

    `micro_batches`: the parts in which a step computes its rows, at most one a row.
    """

    def __init__(self, task: Task, model: nn.Module, micro_batches: int = 1) -> None:
        super().__init__()
        self.task = task
        self.model = model
        self._parts = micro_batches

    def training_step(self, batch: Batch, step: int) -> Tensor:
        """Return the loss of this rank's rows; the mean over the ranks is that of the batch."""
        # Each rank draws its own dropout; the first draws that of a run on one device.
        rank = [ranks.rank()] if ranks.rank() else []
        seed = derive(self.task.config.seed, "step", step, *rank)
        # As torch.manual_seed, which for devices not in use keeps the seed and a formatted stack:
        # more work than a small step.
        torch.default_generator.manual_seed(seed)
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(seed)
        *early, last = ranks.split(batch, self._parts)
        if not early:
            return summed(self.task.loss(self.model, last))
        # The gradients of all parts but the last are in place before its backward pass.
        # `autograd.grad` triggers no hook of DDP, so the ranks synchronize once, in the last part.
        parameters = [one for one in self.model.parameters() if one.requires_grad]
        before: list[Mean] = []
        gradients: list[list[Tensor | None]] = []
        for part in early:
            means = self.task.loss(self.model, part)
            for place, mean in enumerate(means):
                more = place + 1 < len(means)
                own = torch.autograd.grad(
                    mean.total, parameters, retain_graph=more, allow_unused=True
                )
                done = Mean(mean.total.detach(), mean.count)
                if place == len(before):
                    before.append(done)
                    gradients.append(list(own))
                else:
                    before[place] += done
                    gradients[place] = list(map(_sum, gradients[place], own))
        means = self.task.loss(self.model, last)
        whole = [own + earlier for own, earlier in zip(means, before, strict=True)]
        divisors = [_divisor(mean) for mean in whole]
        for parameter, *of_means in zip(parameters, *gradients, strict=True):
            parameter.grad = None
            for gradient, divisor in zip(of_means, divisors, strict=True):
                if gradient is not None:
                    parameter.grad = _sum(parameter.grad, gradient / divisor)
        return summed(whole, divisors)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return adamw(self.model, self.task.config.optimizer)


def summed(means: Sequence[Mean], divisors: Sequence[Tensor] | None = None) -> Tensor:
    """Return the sum of the means, each over all ranks."""
    divisors = divisors or [_divisor(mean) for mean in means]
    quotients = [mean.total / by for mean, by in zip(means, divisors, strict=True)]
    return functools.reduce(operator.add, quotients)


def _divisor(mean: Mean) -> Tensor:
    """Return the divisor of each rank's total whose quotients average to the mean of all ranks."""
    total, count = mean.total, mean.count
    if not isinstance(count, Tensor):  # made on the device, so that the host does not wait
        count = torch.full((), count, dtype=total.dtype, device=total.device)
    return ranks.mean(count.to(total.dtype)).clamp(min=1 / ranks.world())


def _sum(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    if one is None or other is None:
        return other if one is None else one
    return one.add_(other)


def adamw(model: nn.Module, section: OptimizerSection) -> torch.optim.AdamW:
    """Return AdamW: decoupled decay, times the learning rate, on matrices only.

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
