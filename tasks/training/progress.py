"""Metrics and checkpoints of a training job: log, recorder and checkpointer."""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from sweeper.store.attempts import START_LOG, Attempt
from sweeper.store.metrics import MetricsWriter
from sweeper.store.runs import Run
from tasks import ranks
from tasks.task import Evaluator, Task
from tasks.training import checkpoint
from tasks.training.causes import Interrupted, Interruption, NotFinite
from tasks.training.wandb_mirror import Mirror


@dataclass(frozen=True)
class MetricsLog:
    """Writes rows to the metrics file, to the W&B mirror, which may fail, and to the log.

    Of several ranks, only the first has a file; the others write nothing.
    """

    writer: MetricsWriter | None = None
    mirror: Mirror | None = None

    def row(self, step: int, values: Mapping[str, float], left: float | None = None) -> None:
        """Write a row of metrics after a step; `left`: seconds of training left, for the log."""
        if self.writer is None or self.mirror is None:
            return
        self.writer.write({"step": step, **values})
        self.mirror.log(step, values)
        words = ", ".join(f"{name} {value:.6g}" for name, value in values.items())
        to_come = "" if left is None else f", about {left:.0f} s left"
        print(f"step {step}: {words}{to_come}", flush=True)

    def sync(self) -> None:
        """Make every row durable."""
        if self.writer is not None:
            self.writer.sync()


KEPT = 2  # checkpoints: the newest, and one in case it is damaged
SAMPLES = 4  # times that a run without validations logs the loss on a few validation rows
HELD = 1000  # most losses to leave on the device between two rows


class RunContext(NamedTuple):
    """The objects that the parts of one job share."""

    task: Task
    run: Run
    attempt: Attempt
    log: MetricsLog
    interruption: Interruption


class Recorder:
    """Writes a row every `log_every` steps and validates every `validate_every` steps.

    If that is 0, it logs the validation loss of a few rows SAMPLES times. Losses stay on the device
    between two rows: the host waits for the device only to read them. `validation` holds the newest
    metrics of the whole split. `seconds` are those of training steps, interrupted attempts
    included; `seconds_before` of interrupted attempts alone.
    """

    def __init__(self, context: RunContext, model: nn.Module, device: torch.device) -> None:
        self._context, self._model, self.device = context, model, device
        self._earlier: list[float] = []  # losses since the last row: first those read,
        self._losses: list[Tensor] = []  # then those on the device
        self._timed = 0  # steps since `_since`
        self._validated = 0
        self._since = 0.0
        self.validation: dict[str, float] = {}
        self.seconds = 0.0
        self.seconds_before = 0.0

    def begin(self, step: int) -> None:
        """Start the clock of a training that has done `step` steps."""
        self._validate(step)
        self._since = time.perf_counter()

    def after(self, step: int, loss: Tensor) -> None:
        """Record the loss of a step; write a row and validate if due."""
        self._context.attempt.advance()
        self._losses.append(loss)
        self._timed += 1
        if len(self._losses) == HELD:
            self._earlier, self._losses = self._read(), []
        trained = self._context.task.config.trainer
        if step % trained.log_every == 0 or step == trained.steps:
            self._write_row(step)
        self._validate(step)

    def _validate(self, step: int) -> None:
        """Validate if it is due at this step and no attempt has done it."""
        trainer = self._context.task.config.trainer
        steps = trainer.steps
        every = trainer.validate_every or math.ceil(steps / SAMPLES)
        if not step or (step % every and step != steps) or self._validated == step:
            return

        def between_batches() -> None:
            self._context.attempt.advance()
            self._context.interruption.check()

        begun = time.perf_counter()
        self._context.attempt.heartbeat(phase="validate")
        evaluator = Evaluator(self.device, trainer.precision, between_batches)
        task = self._context.task
        try:
            self._context.interruption.check()  # a rank may have no batch
            if trainer.validate_every:
                metrics = task.evaluate(self._model, "validation", evaluator)
                finite = {name: value for name, value in metrics.items() if math.isfinite(value)}
                self.validation = finite
            else:
                metrics = task.sampled_loss(self._model, evaluator)
        except Interrupted:
            return  # the step is finished: the checkpointer saves it, and the job stops
        if metrics:
            self._context.log.row(step, metrics)
        self._validated = step
        self._since += time.perf_counter() - begun

    def state_dict(self) -> dict[str, Any]:
        running = time.perf_counter() - self._since if self._since else 0.0
        return {
            "losses": self._read(),
            "validated": self._validated,
            "validation": self.validation,
            "seconds": self.seconds + running,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._earlier = list(state_dict["losses"])
        self._validated = state_dict["validated"]
        self.validation = dict(state_dict.get("validation", {}))  # older checkpoints have none
        self.seconds = self.seconds_before = state_dict["seconds"]

    def _write_row(self, step: int) -> None:
        losses, task = self._read(), self._context.task
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
        self._context.log.row(step, row, left=self.seconds / step * (steps - step))
        shown = {"loss": row["train/loss"], "tokens_per_second": row["tokens_per_second"]}
        self._context.attempt.heartbeat(step=step, steps=steps, **shown, phase="train")
        for place, loss in enumerate(losses, start=step - len(losses) + 1):
            if not math.isfinite(loss):
                raise NotFinite("the training loss", loss, place)

    def _read(self) -> list[float]:
        new: list[float] = torch.stack(self._losses).tolist() if self._losses else []
        return [*self._earlier, *new]


@dataclass(frozen=True)
class Checkpointer:
    """Saves every `checkpoint_every` steps, at the last step, and when the job is asked to stop."""

    context: RunContext
    recorder: Recorder
    module: nn.Module
    optimizer: torch.optim.Optimizer

    def load(self, path: Path) -> int:
        """Load a checkpoint; return its step."""
        saved = checkpoint.load(path)
        self.module.load_state_dict(saved["state_dict"])
        self.optimizer.load_state_dict(saved["optimizer_states"][0])
        self.recorder.load_state_dict(saved["callbacks"]["Recorder"])
        return saved["global_step"]

    def after(self, step: int) -> None:
        """Save after a step if it is due."""
        trainer = self.context.task.config.trainer
        every = trainer.checkpoint_every
        due = step == trainer.steps or (every and step % every == 0)
        if (due or self.context.interruption.requested) and ranks.rank() == 0:
            self.save(step)

    def save(self, step: int) -> None:
        """Save after a step; delete the checkpoints that are not needed any more."""
        # First the rows: a checkpoint must not be ahead of the metrics.
        self.context.log.sync()
        folder = self.context.attempt.checkpoint_dir
        state = {
            "global_step": step,
            "state_dict": self.module.state_dict(),
            "optimizer_states": [self.optimizer.state_dict()],
            "callbacks": {"Recorder": self.recorder.state_dict()},
        }
        checkpoint.save(state, folder / f"step-{step:08d}.ckpt", self.context.run.id)
        everything = self.context.run.checkpoints()  # highest step first
        own = [path for path in everything if path.parent == folder]
        if len(own) >= KEPT:  # only now earlier attempts' checkpoints are not needed
            for path in everything[everything.index(own[KEPT - 1]) + 1 :]:
                checkpoint.remove(path)


def remove_all(run: Run) -> None:
    """Delete the checkpoints and the start log of a run that has its result."""
    for path in run.checkpoints():
        checkpoint.remove(path)
    (run.path / START_LOG).unlink(missing_ok=True)


def leftovers(run: Run) -> list[Path]:
    """Return the unfinished files of killed attempts, which may be as large as checkpoints."""
    dead = [attempt for attempt in run.attempts() if not attempt.alive()]
    return [path for attempt in dead for path in attempt.checkpoint_files(".*.tmp")]
