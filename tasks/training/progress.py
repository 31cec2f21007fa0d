"""The recorder and the checkpointer, which write a job's metrics and checkpoints."""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sweeper.store.attempts import START_LOG, Attempt
from sweeper.store.metrics import MetricsWriter
from sweeper.store.runs import Run
from tasks import checkpoint, ranks
from tasks.module import TaskModule
from tasks.training import machine
from tasks.training.causes import Interrupted, Interruption, NotFinite
from tasks.training.evaluate import evaluate, sampled_loss
from tasks.training.wandb_mirror import Mirror

# Keep this many checkpoints: the newest, and an older one in case the newest is damaged.
KEPT = 2
# If `validate_every` is 0, a run logs the loss on a few validation rows this many times.
SAMPLES = 8


class RunContext:
    """The objects that the loop, the recorder and the checkpointer of a job share.

    Attributes:
        run: the run to train.
        attempt: the attempt of this job at the run.
        interruption: the handler of stop signals.
        metrics_file: the writer of metrics.jsonl. It is None on ranks other than 0.
        mirror: the mirror in W&B, if the config enables it. It is None on ranks other than 0.
    """

    def __init__(self, run: Run, attempt: Attempt) -> None:
        self.run, self.attempt = run, attempt
        self.interruption = Interruption()
        self.metrics_file: MetricsWriter | None = None
        self.mirror: Mirror | None = None

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Write the metrics of a step to the metrics file, the W&B mirror and the log.

        Do nothing on ranks other than 0.
        """
        if self.metrics_file is None:
            return
        row = {"step": step, **values}
        self.metrics_file.write(row)
        if self.mirror is not None:
            self.mirror.log(row)
        words = ", ".join(f"{name} {value:.6g}" for name, value in values.items())
        print(f"step {step}: {words}", flush=True)

    def sync(self) -> None:
        """Flush all rows of the metrics file to the disk."""
        if self.metrics_file is not None:
            self.metrics_file.sync()

    def between_batches(self) -> None:
        """Report an evaluated batch to the watchdog. Raise Interrupted if a stop is requested."""
        self.attempt.advance()
        self.interruption.check()


class Recorder:
    """A recorder of a run's metrics and heartbeats. It also validates the model.

    Every `log_every` steps, the recorder writes a row of metrics and a heartbeat. Every
    `validate_every` steps, it evaluates the validation split. If `validate_every` is 0, it logs the
    loss on a few validation rows instead, SAMPLES times in a run. Losses stay on the device until
    the next row of metrics, so that the host rarely waits for them.

    Attributes:
        validation: the metrics of the last validation on the whole split, or {} if there was none.
        times: an array of two sums over the steps of all attempts, up to the last row of metrics.
            times[0]: the seconds that the steps took.
            times[1]: for how many of these seconds the process waited for a processor.
        seconds_before: the seconds that the steps of earlier attempts took.
    """

    def __init__(self, context: RunContext, module: TaskModule) -> None:
        self._context, self._module = context, module
        self._trainer = module.config.trainer
        # The losses since the last row of metrics. `_earlier` has losses from the checkpoint of an
        # earlier attempt. `_losses` has losses of this attempt, which are still on the device.
        self._earlier: list[float] = []
        self._losses: list[Tensor] = []
        self._validated = 0  # the step of the last validation
        self.validation: dict[str, float] = {}
        self.times = np.zeros(2)
        self.seconds_before = 0.0
        # `_clocks() - self._start` are the times of all steps so far, including those of earlier
        # attempts, but without validations.
        self._start = _clocks()

    def on_train_start(self, step: int) -> None:
        """Start the clocks. `step` is the step from which training continues, or 0.

        If a validation is due at `step`, and the earlier attempt was interrupted before it could
        validate, validate first.
        """
        self._validate(step)
        self._start = _clocks() - self.times

    def on_train_batch_end(self, step: int, loss: Tensor) -> None:
        """Record the loss of a step. If due, write a row of metrics, and validate."""
        self._context.attempt.advance()
        self._losses.append(loss)
        if step % self._trainer.log_every == 0 or step == self._trainer.steps:
            self._write_row(step)
        self._validate(step)

    def _validate(self, step: int) -> None:
        """Validate if a validation is due at this step and was not done already."""
        steps = self._trainer.steps
        every = self._trainer.validate_every or math.ceil(steps / SAMPLES)
        due = step > 0 and (step % every == 0 or step == steps)
        if not due or self._validated == step:
            return
        begun = _clocks()
        self._context.attempt.heartbeat(phase="validate")
        try:
            # Check here, too, because `evaluate` checks only before each batch, and a rank may have
            # no batch.
            self._context.interruption.check()
            metrics = self._measured()
            if metrics:
                self._context.log(step, metrics)
            self._validated = step
        except Interrupted:
            # Do not stop here. The step is finished, so the checkpointer must save it first.
            return
        finally:
            # Exclude the validation from the training time, even if a signal cut it short.
            self._start += _clocks() - begun

    def _measured(self) -> dict[str, float]:
        if not self._trainer.validate_every:
            return sampled_loss(self._module)
        between = self._context.between_batches
        metrics = evaluate(self._module, "validation", between=between)
        self.validation = {
            name: value for name, value in metrics.items() if math.isfinite(value)
        }
        return metrics

    def state_dict(self) -> dict[str, Any]:
        seconds, waited = (_clocks() - self._start).tolist()
        return {
            "losses": self._read(),
            "validated": self._validated,
            "validation": self.validation,
            "seconds": seconds,
            "waited_seconds": waited,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._earlier = state_dict["losses"]
        # If `validate_every` was changed from 0 to a positive number, or back, ignore the saved
        # validation, because it used other rows than the validations of this attempt.
        validation = state_dict["validation"]
        if bool(validation) == bool(self._trainer.validate_every):
            self.validation, self._validated = validation, state_dict["validated"]
        self.seconds_before = state_dict["seconds"]
        # Checkpoints of older versions lack this key.
        waited = state_dict.get("waited_seconds", math.nan)
        self.times = np.array([self.seconds_before, waited])

    def _write_row(self, step: int) -> None:
        losses = self._read()
        before, self.times = self.times, _clocks() - self._start
        seconds, _ = self.times - before

        tokens_seen = self._module.data.tokens_seen
        new_tokens = tokens_seen(step) - tokens_seen(step - len(self._losses))
        row = {
            "train/loss": math.fsum(losses) / len(losses),
            "learning_rate": self._module.learning_rate(step),
            "tokens_per_second": float(new_tokens / seconds),
            "tokens_seen": tokens_seen(step),
        }
        self._earlier, self._losses = [], []

        self._context.log(step, row)
        self._context.attempt.heartbeat(
            phase="train",
            step=step,
            steps=self._trainer.steps,
            loss=row["train/loss"],
            tokens_per_second=row["tokens_per_second"],
        )

        for number, loss in enumerate(losses, start=step - len(losses) + 1):
            if not math.isfinite(loss):
                raise NotFinite("the training loss", loss, number)

    def _read(self) -> list[float]:
        new: list[float] = torch.stack(self._losses).tolist() if self._losses else []
        return [*self._earlier, *new]


def _clocks() -> np.ndarray:
    """Return an array: the time, and how long this process waited for a processor, in seconds."""
    return np.array([time.perf_counter(), machine.waited_seconds()])


@dataclass(frozen=True)
class Checkpointer:
    """A writer of checkpoints.

    It saves a checkpoint every `checkpoint_every` steps, after the last step, and when a signal
    stops the job.
    """

    context: RunContext
    recorder: Recorder
    module: TaskModule
    optimizer: torch.optim.Optimizer

    def load(self, path: Path) -> int:
        """Load a checkpoint into the module, the optimizer and the recorder. Return its step."""
        saved = checkpoint.load(path)
        self.module.load_state_dict(saved["state_dict"])
        self.optimizer.load_state_dict(saved["optimizer_states"][0])
        self.recorder.load_state_dict(saved["callbacks"]["Recorder"])
        return saved["global_step"]

    def on_train_batch_end(self, step: int) -> None:
        """Save a checkpoint after a step if one is due or if a stop is requested."""
        trainer = self.module.config.trainer
        every = trainer.checkpoint_every
        due = step == trainer.steps or (every and step % every == 0)
        if (due or self.context.interruption.requested) and ranks.rank() == 0:
            self.save(step)

    def save(self, step: int) -> None:
        """Save a checkpoint of this step, and delete checkpoints that are no longer needed."""
        # Write the metrics first. An attempt that resumes from this checkpoint does not write their
        # rows again.
        self.context.sync()
        folder = self.context.attempt.checkpoint_dir
        state = {
            "global_step": step,
            "state_dict": self.module.state_dict(),
            "optimizer_states": [self.optimizer.state_dict()],
            "callbacks": {"Recorder": self.recorder.state_dict()},
        }
        checkpoint.save(state, folder / f"step-{step:08d}.ckpt", self.context.run.id)

        everything = self.context.run.checkpoints()  # highest step first
        newest = [path for path in everything if path.parent == folder][:KEPT]
        # Keep the checkpoints of earlier attempts until this attempt has enough of its own.
        if len(newest) == KEPT:
            for path in everything:
                if path not in newest:
                    checkpoint.remove(path)


def remove_all(run: Run) -> None:
    """Delete the checkpoints and the start log of a finished run."""
    for path in run.checkpoints():
        checkpoint.remove(path)
    (run.path / START_LOG).unlink(missing_ok=True)
