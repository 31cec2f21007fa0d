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
# How often a run logs the loss on a few validation rows, if `validate_every` is 0.
SAMPLES = 8


class RunContext:
    """A run, its current attempt, its signal handler, and the writers of its metrics.

    The recorder, the checkpointer and the training loop of a job share them. Only rank 0 has
    writers. It has a mirror only if the config asks for W&B. On the other ranks, `log` and `sync`
    do nothing.
    """

    def __init__(self, run: Run, attempt: Attempt) -> None:
        self.run, self.attempt = run, attempt
        self.interruption = Interruption()
        self.metrics_file: MetricsWriter | None = None
        self.mirror: Mirror | None = None

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Write the metrics of a step to the metrics file, the W&B mirror and the log."""
        if self.metrics_file is None:
            return
        row = {"step": step, **values}
        self.metrics_file.write(row)
        if self.mirror is not None:
            self.mirror.log(row)
        words = ", ".join(f"{name} {value:.6g}" for name, value in values.items())
        print(f"step {step}: {words}", flush=True)

    def sync(self) -> None:
        """Flush all rows of metrics to the disk."""
        if self.metrics_file is not None:
            self.metrics_file.sync()

    def between_batches(self) -> None:
        """Report an evaluated batch to the watchdog. Raise Interrupted if the job has to stop."""
        self.attempt.advance()
        self.interruption.check()


class Recorder:
    """A recorder that writes a run's metrics and heartbeats, and validates.

    Every `log_every` steps it writes a row of metrics and a heartbeat. Every `validate_every` steps
    it evaluates the validation split. If `validate_every` is 0, it logs the loss on a few
    validation rows instead, SAMPLES times in a run. Losses stay on the device until the next row of
    metrics, so the host rarely waits.

    Attributes:
        validation: the metrics of the last validation on the whole split.
        times: an array (2,), summed over all attempts until the last row of metrics. The first
            element is the seconds that training steps took. The second is how many seconds the
            process waited for a processor during these steps.
        seconds_before: the seconds of training steps in earlier attempts.
    """

    def __init__(self, context: RunContext, module: TaskModule) -> None:
        self._context, self._module = context, module
        self._trainer = module.config.trainer
        # The losses since the last row of metrics.jsonl. `_earlier` has those of earlier attempts.
        # `_losses` has those of this attempt, which are still on the device.
        self._earlier: list[float] = []
        self._losses: list[Tensor] = []
        self._validated = 0  # the step of the last validation
        self.validation: dict[str, float] = {}
        self.times = np.zeros(2)
        self.seconds_before = 0.0
        # What the clocks would have shown at step 0, had this process taken all steps without a
        # break.
        self._start = _clocks()

    def on_train_start(self, step: int) -> None:
        """Start the clocks at `step`.

        If an earlier attempt was interrupted before a validation that is due at `step`, validate
        first.
        """
        self._validate(step)
        self._start = _clocks() - self.times

    def on_train_batch_end(self, step: int, loss: Tensor) -> None:
        """Record the loss of a step; write a row and validate if due."""
        self._context.attempt.advance()
        self._losses.append(loss)
        if step % self._trainer.log_every == 0 or step == self._trainer.steps:
            self._write_row(step)
        self._validate(step)

    def _validate(self, step: int) -> None:
        """Validate if a validation is due at this step and was not done before."""
        steps = self._trainer.steps
        every = self._trainer.validate_every or math.ceil(steps / SAMPLES)
        due = step > 0 and (step % every == 0 or step == steps)
        if not due or self._validated == step:
            return
        begun = _clocks()
        self._context.attempt.heartbeat(phase="validate")
        try:
            # `evaluate` checks for a signal before each batch, but a rank may have no batch.
            self._context.interruption.check()
            metrics = self._measured()
            if metrics:
                self._context.log(step, metrics)
            self._validated = step
        except Interrupted:
            # The step itself is finished, so let the checkpointer save it before the job stops.
            return
        finally:
            # The time of a validation is no training time, even if a signal cuts it short.
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
        # `validate_every` may have changed since the checkpoint. Drop the scores of validations if
        # it is now 0, and the step of the last sampled loss if it is not.
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
    """Return the time, and how long this process has waited for a processor, both in seconds."""
    return np.array([time.perf_counter(), machine.waited_seconds()])


@dataclass(frozen=True)
class Checkpointer:
    """A writer of checkpoints.

    It saves one every `checkpoint_every` steps, after the last step, and before the job stops.
    """

    context: RunContext
    recorder: Recorder
    module: TaskModule
    optimizer: torch.optim.Optimizer

    def load(self, path: Path) -> int:
        """Load a checkpoint and return its step."""
        saved = checkpoint.load(path)
        self.module.load_state_dict(saved["state_dict"])
        self.optimizer.load_state_dict(saved["optimizer_states"][0])
        self.recorder.load_state_dict(saved["callbacks"]["Recorder"])
        return saved["global_step"]

    def on_train_batch_end(self, step: int) -> None:
        """Save a checkpoint after a step if one is due or the job was asked to stop."""
        trainer = self.module.config.trainer
        every = trainer.checkpoint_every
        due = step == trainer.steps or (every and step % every == 0)
        if (due or self.context.interruption.requested) and ranks.rank() == 0:
            self.save(step)

    def save(self, step: int) -> None:
        """Save a checkpoint of this step, and delete checkpoints that are no longer needed."""
        # Write the metrics first. A checkpoint must not be ahead of the metrics file.
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
