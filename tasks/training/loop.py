"""The training loop: steps, and the work between two of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor

from tasks.batch import Batch, Prefetched
from tasks.training.captured import CapturedSteps
from tasks.training.progress import Checkpointer, Recorder, RunContext
from tasks.training.steps import Steps, TrainingModule, fabric_for


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
    steps = Steps(fabric, wrapped, stepping)
    take_step: Callable[[int, Batch], Tensor] = steps
    if steps.recordable(context.task.config.trainer):
        take_step = CapturedSteps(steps)
    recorder.begin(step=first - 1)
    data = context.task.data  # each rank computes the whole of a batch that cannot be split
    build = data.share if context.task.separable else data.batch
    batches = Prefetched(build, fabric.device, last)
    context.interruption.check()  # a stop may come while a missed validation is made up for
    for step in range(first, last + 1):
        loss = take_step(step, batches.at(step))
        context.interruption.synchronize()
        recorder.after(step, loss)
        checkpointer.after(step)
        context.interruption.check()
    return recorder
