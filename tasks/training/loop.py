"""The training loop: steps, and the work between two of them."""

from pathlib import Path

from tasks.batch import Prefetched
from tasks.training.captured import CapturedSteps
from tasks.training.progress import Checkpointer, Recorder, RunContext
from tasks.training.steps import Steps, TrainingModule, fabric_for


def train(
    context: RunContext, module: TrainingModule, accelerator: str, resumed: Path | None
) -> Recorder:
    """Train to the last step, from the checkpoint `resumed` or from step 0."""
    trainer = context.task.config.trainer
    fabric = fabric_for(trainer, accelerator)
    steps = Steps(fabric, module)
    recorder = Recorder(context, module.model, fabric.device)
    checkpointer = Checkpointer(context, recorder, module, steps.optimizer.optimizer)
    first = checkpointer.load(resumed) + 1 if resumed else 1
    take_step = CapturedSteps(steps) if steps.recordable(trainer) else steps
    recorder.begin(step=first - 1)
    data = context.task.data  # each rank computes the whole of a batch that cannot be split
    build = data.share if context.task.separable else data.batch
    batches = Prefetched(build, fabric.device, trainer.steps)
    context.interruption.check()  # a stop may come while a missed validation is made up for
    for step in range(first, trainer.steps + 1):
        loss = take_step(step, batches.at(step))
        context.interruption.synchronize()
        recorder.after(step, loss)
        checkpointer.after(step)
        context.interruption.check()
    return recorder
