"""Training steps on the card, of any shape: what they launch and how much memory they take."""

import torch

from tasks.parse import parse
from tasks.prepare import task_of
from tasks.training import machine
from tasks.training.loop import fabric_for, train_step
from tasks.training.module import TrainingModule
from tests.card.card import Card

MATH = 0  # of at::SDPBackend


def measured(shim, config, steps):
    """Return what the last of so many training steps did, and the peak of all."""
    machine.compute_repeatably("cuda")
    task = task_of(parse(config))
    batch = task.training_batches()[0]
    task.data.batch = lambda step: batch  # no text is read here
    with Card() as card:
        fabric = fabric_for(task.config.trainer, "cuda")
        with torch.device("meta"):
            module = TrainingModule(task, task.build()).to_empty(device="cuda")
        optimizer = fabric.setup_optimizers(module.configure_optimizers())
        wrapped = fabric.setup_module(module)
        plain = shim.times_chosen(MATH)
        for number in range(1, steps + 1):
            card.phase = f"step {number}"
            train_step(fabric, wrapped, optimizer, number)
    return {
        "plain_attention": shim.times_chosen(MATH) - plain,
        "waits": [wait for wait in card.waits if wait.phase != "start"],
        "launches": card.launches(card.phase),
        "largest": {dtype: size for (at, dtype), size in card.largest.items() if at == card.phase},
        "peak": card.memory.peak,
    }
