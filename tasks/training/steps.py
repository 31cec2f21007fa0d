"""A training step: the loss of a batch, its gradients, and the update of the weights.

A step asks the module for its loss, and the module the task (tasks/<name>/task.py).
"""

from __future__ import annotations

import functools
import logging
import operator
from collections.abc import Sequence
from typing import Any

import pytorch_lightning as pl
import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins import DoublePrecision, MixedPrecision, Precision
from lightning_fabric.plugins.environments import LightningEnvironment
from torch import Tensor, nn
from torch.optim import Optimizer

from tasks import ranks
from tasks.batch import Batch
from tasks.config.sections import OptimizerSection, TrainerSection
from tasks.seeds import derive
from tasks.task import Mean, Task


class Steps:
    """Takes the steps of a training, one at a time, with the module and its optimizer set up."""

    def __init__(self, fabric: Fabric, module: TrainingModule) -> None:
        optimizer = module.configure_optimizers()
        self.fabric = fabric
        self.module: Any = fabric.setup_module(module)
        self.optimizer: Any = fabric.setup_optimizers(optimizer)

    def __call__(self, step: int, batch: Batch) -> Tensor:
        """Take one step; return the loss of the whole batch, which stays on the device.

        `batch` has this rank's rows. It, the dropout and the learning rate are functions of the
        step, counted from 1.
        """
        rate = self.begin(step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        return self.whole(batch)

    def begin(self, step: int) -> float:
        """Seed the dropout of a step; return its learning rate."""
        task = self.module.task
        # Each rank draws its own dropout; the first draws that of a run on one device.
        rank = [ranks.rank()] if ranks.rank() else []
        seed = derive(task.config.seed, "step", step, *rank)
        # As torch.manual_seed, which for devices not in use keeps the seed and a formatted stack:
        # more work than a small step.
        torch.default_generator.manual_seed(seed)
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(seed)
        return task.learning_rate(step)

    def whole(self, batch: Batch) -> Tensor:
        """Do what a step computes, which its number does not change."""
        self.optimizer.zero_grad()
        with self.fabric.autocast():
            loss: Tensor = self.module.training_step(batch)
        self.fabric.backward(loss)
        clip(self.module, self.module.task.config.optimizer.gradient_clip)
        self.optimizer.step()
        return ranks.mean(loss.detach())

    def recordable(self, trainer: TrainerSection) -> bool:
        """Return whether steps can be recorded: on one GPU that computes all rows at once."""
        alone = ranks.world() == 1 and self.module.micro_batches == 1
        return trainer.cuda_graph and alone and self.fabric.device.type == "cuda"


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
    """The model of a task and the loss of a batch.

    `micro_batches`: the parts in which a step computes its rows, at most one a row.
    """

    def __init__(self, task: Task, model: nn.Module, micro_batches: int = 1) -> None:
        super().__init__()
        self.task = task
        self.model = model
        self.micro_batches = micro_batches

    def training_step(self, batch: Batch) -> Tensor:
        """Return the loss of this rank's rows; the mean over the ranks is that of the batch."""
        *early, last = ranks.split(batch, self.micro_batches)
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

    def configure_optimizers(self) -> Optimizer:
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
