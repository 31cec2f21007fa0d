"""What happens at the end of a step: rows of metrics, validation, checkpoints, stopping."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytorch_lightning as pl
import torch
from torch import Tensor

from sweeper.store.runs import Attempt, Run
from tasks.evaluation import Evaluator
from tasks.task import Task
from tasks.training import checkpoint
from tasks.training.causes import NotFinite
from tasks.training.metrics_log import Journal
from tasks.training.signals import Interrupted, Interruption

KEPT = 2  # checkpoints: the newest, and one in case that is damaged
HELD = 1000  # losses left on the device at most, however rarely rows are written


class Stage(NamedTuple):
    """What the callbacks of one job share."""

    task: Task
    run: Run
    attempt: Attempt
    journal: Journal
    interruption: Interruption


class Recorder(pl.Callback):
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
        self.seconds = 0.0
        """Spent in training steps, those of interrupted attempts included."""

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        # Lightning has put its own handler in place by now, which ends a job as if it were done.
        self._stage.interruption.install()
        self.catch_up(trainer, pl_module)
        self._since = time.perf_counter()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, *_: Any
    ) -> None:
        self._stage.attempt.advance()
        self._losses.append(outputs["loss"].detach())
        self._timed += 1
        if len(self._losses) == HELD:
            self._earlier, self._losses = self._read(), []
        step, trained = trainer.global_step, self._stage.task.config.trainer
        if step % trained.log_every == 0 or step == trained.steps:
            self._write_row(step)
        self.catch_up(trainer, pl_module)

    def catch_up(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Validate if that is due at this step and was not done, by this or an earlier attempt."""
        step, every = trainer.global_step, self._stage.task.config.trainer.validate_every
        last = step == self._stage.task.config.trainer.steps
        if not every or not step or (step % every and not last) or self._validated == step:
            return
        begun = time.perf_counter()
        self._stage.attempt.beat(phase="validate")
        precision = self._stage.task.config.trainer.precision
        evaluator = Evaluator(pl_module.device, precision, self._between_batches)
        try:
            metrics = self._stage.task.evaluate(
                pl_module.get_submodule("model"), "validation", evaluator
            )
        except Interrupted:
            return  # the state is that of a finished step: the Keeper saves it and stops
        self._stage.journal.row(step, metrics)
        self._validated = step
        self._since += time.perf_counter() - begun

    def state_dict(self) -> dict[str, Any]:
        seconds = self.seconds + (time.perf_counter() - self._since if self._since else 0.0)
        return {"losses": self._read(), "validated": self._validated, "seconds": seconds}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._earlier = list(state_dict["losses"])
        self._validated = state_dict["validated"]
        self.seconds = state_dict["seconds"]

    def _between_batches(self) -> None:
        self._stage.attempt.advance()
        self._stage.interruption.check()

    def _write_row(self, step: int) -> None:
        losses, task = self._read(), self._stage.task
        now = time.perf_counter()
        tokens = task.tokens_seen(step) - task.tokens_seen(step - self._timed)
        elapsed, self._since = now - self._since, now
        self.seconds += elapsed
        self._earlier, self._losses, self._timed = [], [], 0
        row = {
            "train/loss": math.fsum(losses) / len(losses),
            "learning_rate": task.learning_rate(step),
            "tokens_per_second": tokens / elapsed,
            "tokens_seen": task.tokens_seen(step),
        }
        steps = task.config.trainer.steps
        self._stage.journal.row(step, row, left=self.seconds / step * (steps - step))
        self._stage.attempt.beat(
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


class Keeper(pl.Callback):
    """Saves every `checkpoint_every` steps and at the last; saves and stops when asked to stop."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        step, trained = trainer.global_step, self._stage.task.config.trainer
        every = trained.checkpoint_every
        due = step == trained.steps or (every and step % every == 0)
        if due or self._stage.interruption.requested:
            self._save(trainer, step)
        self._stage.interruption.check()

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._stage.interruption.check()  # asked to stop while an earlier validation was caught up

    def _save(self, trainer: pl.Trainer, step: int) -> None:
        # First the rows, so that a checkpoint never knows of a step that the metrics lost.
        self._stage.journal.sync()
        folder = self._stage.attempt.checkpoint_dir
        trainer.save_checkpoint(folder / f"step-{step:08d}.ckpt")
        everything = self._stage.run.checkpoints()  # highest step first
        own = [path for path in everything if path.parent == folder]
        if len(own) >= KEPT:  # only now are those that others left not needed any more
            for path in everything[everything.index(own[KEPT - 1]) + 1 :]:
                checkpoint.remove(path)


def remove_all(run: Run) -> None:
    """Delete what is only needed to continue a run, once its result is there."""
    for path in run.checkpoints():
        checkpoint.remove(path)


def leftovers(run: Run) -> list[Path]:
    """Return the unfinished files of killed attempts: they may be as large as checkpoints."""
    dead = [attempt for attempt in run.attempts() if not attempt.alive()]
    return [path for attempt in dead for path in attempt.checkpoint_dir.glob(".*.tmp")]
