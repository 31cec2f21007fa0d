"""Training steps on the card, of any shape: what they launch and how much memory they take."""

from __future__ import annotations

import ctypes
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn

from tasks.batch import Batch, moved
from tasks.parse import parse
from tasks.prepare import task_of
from tasks.task import Task
from tasks.training.module import summed
from tasks.training.optimizer import adamw
from tests.card.card import Card

CARD = torch.device("cuda")
MATH = 0  # of at::SDPBackend


def measured(shim: ctypes.CDLL, config: dict[str, Any], steps: int) -> dict[str, Any]:
    """Return what the last of so many training steps did, and the peak of all."""
    task = task_of(parse(config))
    with Card() as card:
        batch = moved(task.training_batches()[0], CARD)
        with torch.device("meta"):
            model = task.build().to_empty(device=CARD)
        if config["trainer"]["precision"] == "64-true":
            model.double()
        optimizer = adamw(model, task.config.optimizer)
        plain = shim.times_chosen(MATH)
        for number in range(1, steps + 1):
            card.phase = f"step {number}"
            _step(task, model, optimizer, batch)
    return {
        "plain_attention": shim.times_chosen(MATH) - plain,
        "waits": [wait for wait in card.waits if wait.phase != "start"],
        "launches": card.launches(card.phase),
        "largest": {dtype: size for (at, dtype), size in card.largest.items() if at == card.phase},
        "peak": card.memory.peak,
    }


def _step(task: Task, model: nn.Module, optimizer: torch.optim.Optimizer, batch: Batch) -> None:
    """In the order in which it is trained."""
    half = task.config.trainer.precision == "bf16-mixed"
    optimizer.zero_grad()
    with torch.autocast("cuda", torch.bfloat16) if half else nullcontext():
        loss = summed(task.loss(model, batch))
    loss.backward()
    if task.config.optimizer.gradient_clip is not None:
        nn.utils.clip_grad_norm_(model.parameters(), task.config.optimizer.gradient_clip)
    optimizer.step()
