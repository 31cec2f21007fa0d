"""Evaluation with the methods of a TaskModule, in the precision of training.

`evaluate` uses a whole split. `sampled_loss` uses a few rows, and is for runs that do not validate
on the whole split.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch

from tasks import ranks
from tasks.batch import Batch, moved, rows_of
from tasks.module import TaskModule

# `sampled_loss` evaluates this share of the positions that a run trains on, within the limits in
# its docstring. Eight samples of this size take less than 1 % of the training time.
SAMPLED = 0.0025


def evaluate(
    module: TaskModule,
    split: str,
    batches: Iterable[Batch] | None = None,
    between: Callable[[], None] = lambda: None,
) -> dict[str, float]:
    """Return the metrics of a split, "validation" or "test".

    Args:
        module: a module that Fabric has set up.
        batches: the batches of this rank. By default, its share of the whole split.
        between: a function to call before each batch. It may raise an error to stop the evaluation.
    """
    data, training = module.data, module.training
    if batches is None:
        batches = data.test_dataloader() if split == "test" else data.val_dataloader()
    fabric: Any = module.fabric
    module.eval()
    try:
        # With the precision "64-true", `fabric.autocast` makes new tensors double precision.
        with torch.inference_mode(), fabric.autocast(), module.autocast():
            getattr(module, f"on_{split}_epoch_start")()
            step = getattr(module, f"{split}_step")
            for number, batch in enumerate(batches):
                between()
                step(moved(batch, module.device), number)
            return module.measure(split)
    finally:
        module.train(training)


def sampled_loss(module: TaskModule) -> dict[str, float]:
    """Return {"validation/loss": the loss on a few rows}, or {} if the task has no such metric.

    Every call uses the first rows of the first validation batch. The number of positions in these
    rows is the larger of two numbers:

    - the number of positions in one training step.
    - SAMPLED times the number of positions in all training steps.

    If the validation batch has fewer positions, use all its rows. Of Headroom's tasks, only
    pre-training can have validation batches that are larger than training batches.
    """
    if module.measured and "test/loss" not in module.measured:
        return {}
    data, steps = module.data, module.config.trainer.steps
    first = next(iter(data.batches("validation")), None)
    if first is None:
        return {}
    positions = max(data.tokens_seen(1), SAMPLED * data.tokens_seen(steps))
    rows = math.ceil(positions * rows_of(first) / module.positions(first))
    few = {name: tensor[:rows] for name, tensor in first.items()}
    own = [few] if ranks.rank() == 0 else []
    metrics = evaluate(module, "validation", own)
    return {name: value for name, value in metrics.items() if name == "validation/loss"}
