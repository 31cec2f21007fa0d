"""Where a job's rows of metrics go: to its own file, and mirrored to W&B."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from sweeper.store.attempts import START_LOG, Attempt
from sweeper.store.metrics import MetricsWriter
from sweeper.store.runs import Run
from tasks import ranks
from tasks.evaluation import Evaluator
from tasks.task import Task
from tasks.training import checkpoint
from tasks.training.causes import NotFinite
from tasks.training.module import TrainingModule
from tasks.training.signals import Interrupted, Interruption
from tasks.training.wandb_mirror import Mirror


class MetricsLog:
    """The file is the record; the mirror may fail; the log is for whoever watches."""

    def __init__(self, writer: MetricsWriter, mirror: Mirror) -> None:
        self._writer = writer
        self._mirror = mirror

    def row(self, step: int, values: Mapping[str, float], left: float | None = None) -> None:
        """Write what is known after a step; `left` is for the log: seconds of training to come."""
        self._writer.write({"step": step, **values})
        self._mirror.log(step, values)
        words = ", ".join(f"{name} {value:.6g}" for name, value in values.items())
        to_come = "" if left is None else f", about {left:.0f} s left"
        print(f"step {step}: {words}{to_come}", flush=True)

    def sync(self) -> None:
        """Make every row durable."""
        self._writer.sync()


class NullLog(MetricsLog):
    """The log of ranks other than the first, who would only say the same."""

    def __init__(self) -> None:
        pass

    def row(self, step: int, values: Mapping[str, float], left: float | None = None) -> None:
        pass

    def sync(self) -> None:
        pass


KEPT = 2  # checkpoints: the newest, and one in case that is damaged
HELD = 1000  # losses left on the device at most, however rarely rows are written


class Stage(NamedTuple):
    """What the parts of one job share."""

    task: Task
    run: Run
    attempt: Attempt
    log: MetricsLog
    interruption: Interruption


class Recorder:
    """Writes a row every `log_every` steps and validates every `validate_every`.

    Between two rows losses stay on the device; reading them is the only time the host waits.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._earlier: list[float] = []  # losses since the last row, in order: those read,
        self._losses: list[Tensor] = []  # and those still on the device
        self._timed = 0  # steps since `_since`
        self._validated = 0
        self._since = 0.0
        self.validation: dict[str, float] = {}
        """What the newest validation measured; no part of `metrics`, as it hangs on how often."""
        self.seconds = 0.0
        """Spent in training steps, those of interrupted attempts included."""
        self.seconds_before = 0.0
        """Those of interrupted attempts."""

    def begin(self, model: nn.Module, device: torch.device, step: int) -> None:
        """Start the clock of a training that stands after `step`."""
        self._model, self._device = model, device
        self._validate(step)
        self._since = time.perf_counter()

    def after(self, step: int, loss: Tensor) -> None:
        """Note the loss of a step, and write and validate what is due."""
        self._stage.attempt.advance()
        self._losses.append(loss)
        self._timed += 1
        if len(self._losses) == HELD:
            self._earlier, self._losses = self._read(), []
        trained = self._stage.task.config.trainer
        if step % trained.log_every == 0 or step == trained.steps:
            self._write_row(step)
        self._validate(step)

    def _validate(self, step: int) -> None:
        """Validate if that is due at this step and was not done, by this or an earlier attempt."""
        trainer = self._stage.task.config.trainer
        every, steps = trainer.validate_every, trainer.steps
        if not every or not step or (step % every and step != steps) or self._validated == step:
            return
        begun = time.perf_counter()
        self._stage.attempt.heartbeat(phase="validate")
        evaluator = Evaluator(self._device, trainer.precision, self._between_batches)
        try:
            metrics = self._stage.task.evaluate(self._model, "validation", evaluator)
        except Interrupted:
            return  # the state is that of a finished step: the Keeper saves it and stops
        self._stage.log.row(step, metrics)
        self._validated = step
        self.validation = {name: value for name, value in metrics.items() if math.isfinite(value)}
        self._since += time.perf_counter() - begun

    def state_dict(self) -> dict[str, Any]:
        seconds = self.seconds + (time.perf_counter() - self._since if self._since else 0.0)
        return {
            "losses": self._read(),
            "validated": self._validated,
            "validation": self.validation,
            "seconds": seconds,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._earlier = list(state_dict["losses"])
        self._validated = state_dict["validated"]
        self.validation = dict(state_dict.get("validation", {}))  # older checkpoints have none
        self.seconds = self.seconds_before = state_dict["seconds"]

    def _between_batches(self) -> None:
        self._stage.attempt.advance()
        self._stage.interruption.check()

    def _write_row(self, step: int) -> None:
        losses, task = self._read(), self._stage.task
        now = time.perf_counter()
        tokens = task.data.tokens_seen(step) - task.data.tokens_seen(step - self._timed)
        elapsed, self._since = now - self._since, now
        self.seconds += elapsed
        self._earlier, self._losses, self._timed = [], [], 0
        row = {
            "train/loss": math.fsum(losses) / len(losses),
            "learning_rate": task.learning_rate(step),
            "tokens_per_second": tokens / elapsed,
            "tokens_seen": task.data.tokens_seen(step),
        }
        steps = task.config.trainer.steps
        self._stage.log.row(step, row, left=self.seconds / step * (steps - step))
        self._stage.attempt.heartbeat(
            step=step,
            steps=steps,
            loss=row["train/loss"],
            tokens_per_second=row["tokens_per_second"],
            phase="train",
        )
        for place, loss in enumerate(losses, start=step - len(losses) + 1):
            if not math.isfinite(loss):
                raise NotFinite("the training loss", loss, place)

    def _read(self) -> list[float]:
        new: list[float] = torch.stack(self._losses).tolist() if self._losses else []
        return [*self._earlier, *new]


class Keeper:
    """Saves every `checkpoint_every` steps and at the last, and when the job is asked to stop.

    A checkpoint spells its keys as Lightning's Trainer does.
    """

    def __init__(
        self,
        stage: Stage,
        recorder: Recorder,
        module: TrainingModule,
        optimizer: torch.optim.Optimizer,
    ) -> None:
        self._stage = stage
        self._recorder = recorder
        self._module = module
        self._optimizer = optimizer

    def load(self, path: Path) -> int:
        """Go back to where a checkpoint was saved; returns after which step that was."""
        saved = checkpoint.load(path)
        self._module.load_state_dict(saved["state_dict"])
        self._optimizer.load_state_dict(saved["optimizer_states"][0])
        self._recorder.load_state_dict(saved["callbacks"]["Recorder"])
        step: int = saved["global_step"]
        return step

    def after(self, step: int) -> None:
        """Save what a step left, if that is due."""
        trained = self._stage.task.config.trainer
        every = trained.checkpoint_every
        due = step == trained.steps or (every and step % every == 0)
        if (due or self._stage.interruption.requested) and ranks.rank() == 0:
            self._save(step)

    def _save(self, step: int) -> None:
        # First the rows, so that a checkpoint never knows of a step that the metrics lost.
        self._stage.log.sync()
        folder = self._stage.attempt.checkpoint_dir
        state = {
            "global_step": step,
            "state_dict": self._module.state_dict(),
            "optimizer_states": [self._optimizer.state_dict()],
            "callbacks": {"Recorder": self._recorder.state_dict()},
        }
        checkpoint.save(state, folder / f"step-{step:08d}.ckpt", self._stage.run.id)
        everything = self._stage.run.checkpoints()  # highest step first
        own = [path for path in everything if path.parent == folder]
        if len(own) >= KEPT:  # only now are those that others left not needed any more
            for path in everything[everything.index(own[KEPT - 1]) + 1 :]:
                checkpoint.remove(path)


def remove_all(run: Run) -> None:
    """Delete what is only needed to continue a run, or to start it, once its result is there."""
    for path in run.checkpoints():
        checkpoint.remove(path)
    (run.path / START_LOG).unlink(missing_ok=True)


def leftovers(run: Run) -> list[Path]:
    """Return the unfinished files of killed attempts: they may be as large as checkpoints."""
    dead = [attempt for attempt in run.attempts() if not attempt.alive()]
    return [path for attempt in dead for path in attempt.checkpoint_files(".*.tmp")]
