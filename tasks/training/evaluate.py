"""Evaluation with the hooks of a TaskModule: no gradients, no dropout, the precision of training.

A run is evaluated on whole splits. A run without validations is sampled on a few validation rows.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from tasks.batch import moved
from tasks.module import TaskModule, numbers

SAMPLED = 0.0025  # share of all training positions; eight such samples add under 1 % to the time


def evaluate(
    module: TaskModule, split: str, between: Callable[[], None] = lambda: None
) -> dict[str, float]:
    """Return the metrics of a split, "validation" or "test".

    Args:
        module: a module that Fabric has set up.
        between: called before each batch; it may raise to stop the evaluation.
    """
    with evaluating(module):
        data = module.data
        batches = data.test_dataloader() if split == "test" else data.val_dataloader()
        start = getattr(module, f"on_{split}_epoch_start")
        step = getattr(module, f"{split}_step")
        end = getattr(module, f"on_{split}_epoch_end")
        start()
        for number, batch in enumerate(batches):
            between()
            step(moved(batch, module.device), number)
        end()
    return dict(module.logged)


def sampled_loss(module: TaskModule) -> dict[str, float]:
    """Return the loss on the first rows of the validation split, or {} if the task has no loss.

    The sample has as many positions as one training step, or the share SAMPLED of all training
    positions if that is more, but no more than the first batch. It is the same for all runs.
    """
    if "test/loss" not in module.measured:
        return {}
    data, steps = module.data, module.config.trainer.steps
    first = next(iter(data.batches("validation")))
    positions = next(iter(first.values()))[0].numel()
    rows = math.ceil(
        max(data.tokens_seen(1), SAMPLED * data.tokens_seen(steps)) / positions
    )
    few = {name: tensor[:rows] for name, tensor in first.items()}
    with evaluating(module):
        module.on_validation_epoch_start()
        sums = module.score(moved(few, module.device))
        metrics = module.metrics("validation", numbers(sums))
    return {name: value for name, value in metrics.items() if name == "validation/loss"}


@contextmanager
def evaluating(module: TaskModule) -> Iterator[None]:
    """Within the block, put the module in evaluation mode; restore its mode afterwards."""
    training = module.training
    module.eval()
    try:
        with torch.inference_mode(), module.autocast():
            yield
    finally:
        module.train(training)
