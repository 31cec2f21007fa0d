"""The training loop, which calls the hooks of a TaskModule.

The loop gets a run's module with its data. It trains the module's weights, and writes rows of
metrics and checkpoints. This file belongs to stop 5 of the road through the code in
CONTRIBUTING.md. Read tasks/lm1b/task.py next.

`pl.Trainer` calls the same hooks and ends with the same weights (docs/lightning.md).
"""

from pathlib import Path

from tasks.batch import prefetched
from tasks.module import TaskModule
from tasks.training.captured import CapturedSteps
from tasks.training.progress import Checkpointer, Recorder, RunContext
from tasks.training.steps import Steps, fabric_for


def train(
    context: RunContext,
    module: TaskModule,
    accelerator: str,
    parts: int,
    resumed: Path | None,
) -> Recorder:
    """Train `module` to the last step.

    Args:
        accelerator: "cuda" or "cpu".
        parts: the number of micro-batches into which each step splits this rank's rows.
        resumed: the checkpoint from which to continue, or None to start from step 0.

    Returns:
        The recorder, which holds the training time and the metrics of the last validation.
    """
    fabric = fabric_for(module.config.trainer, accelerator)
    steps = Steps(fabric, module, parts)
    take_step = CapturedSteps(steps) if steps.can_capture() else steps

    recorder = Recorder(context, module)
    checkpointer = Checkpointer(context, recorder, module, steps.optimizer)
    done = checkpointer.load(resumed) if resumed else 0

    batches = module.data.train_dataloader()
    batches.load_state_dict({"done": done})
    recorder.on_train_start(done)
    # A signal may have arrived during a validation in on_train_start.
    context.interruption.check()

    for number, batch in enumerate(prefetched(batches, fabric.device), done):
        loss = take_step(number, batch)
        context.interruption.synchronize()
        recorder.on_train_batch_end(number + 1, loss)
        checkpointer.on_train_batch_end(number + 1)
        context.interruption.check()
    return recorder
