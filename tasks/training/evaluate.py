"""Evaluation by the hooks of a TaskModule: no gradients, no dropout, the precision of training."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from tasks.batch import moved
from tasks.module import TaskModule, numbers

SAMPLED = 0.005  # of the training's positions: four forward passes take less than 1 % of its time


def evaluate(
    module: TaskModule, split: str, between: Callable[[], None] = lambda: None
) -> dict[str, float]:
    """Return the metrics of a split. `between` is called before each batch; it may raise to stop.

    The module has been set up by a Fabric.
    """
    with evaluating(module):
        if split == "validation":
            batches, step = module.data.val_dataloader(), module.validation_step
            start, end = module.on_validation_epoch_start, module.on_validation_epoch_end
        else:
            batches, step = module.data.test_dataloader(), module.test_step
            start, end = module.on_test_epoch_start, module.on_test_epoch_end
        start()
        for number, batch in enumerate(batches):
            between()
            step(moved(batch, module.device), number)
        end()
    return dict(module.logged)


def sampled_loss(module: TaskModule) -> dict[str, float]:
    """Return the loss on the first rows of the validation split, the same for all runs.

    The rows have as many positions as a step, or SAMPLED of the training's; none of a second batch.
    Empty for a task that measures no loss.
    """
    if "test/loss" not in module.measured:
        return {}
    data, steps = module.data, module.config.trainer.steps
    first = next(iter(data.batches("validation")))
    positions = next(iter(first.values()))[0].numel()
    rows = math.ceil(max(data.tokens_seen(1), SAMPLED * data.tokens_seen(steps)) / positions)
    few = {name: tensor[:rows] for name, tensor in first.items()}
    with evaluating(module):
        module.on_validation_epoch_start()
        sums = module.score(moved(few, module.device))
        metrics = module.metrics("validation", numbers(sums))
    return {name: value for name, value in metrics.items() if name == "validation/loss"}


@contextmanager
def evaluating(module: TaskModule) -> Iterator[None]:
    """Put the module in evaluation mode in the block, and back into its mode after it."""
    training = module.training
    module.eval()
    try:
        with torch.inference_mode(), module.autocast():
            yield
    finally:
        module.train(training)
