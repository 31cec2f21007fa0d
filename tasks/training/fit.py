"""From a frozen record to a result: data, model, training, evaluation.

In: a run directory with its record, and the attempt that this process has claimed. Out: what
result.json says. On the road: `tasks.training.loop` trains, step by step.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sweeper.store.attempts import Attempt
from sweeper.store.errors import wrong
from sweeper.store.files import publish_json
from sweeper.store.runs import Run, RunStore
from tasks import ranks
from tasks.config.sections import RunConfig
from tasks.energy import Energy
from tasks.evaluation import Evaluator
from tasks.parse import parse
from tasks.prepare import open_data, task_of
from tasks.seeds import derive
from tasks.task import Task
from tasks.training import checkpoint, machine
from tasks.training.causes import NotFinite
from tasks.training.inheritance import WEIGHTS, adapted, final_weights
from tasks.training.loop import train
from tasks.training.metrics_log import MetricsLog, NullLog
from tasks.training.module import TrainingModule
from tasks.training.progress import Recorder, Stage
from tasks.training.signals import Interruption
from tasks.training.wandb_mirror import Mirror


class Fitting:
    """The training of one attempt. `reading_data` is true while an error would be the data's."""

    def __init__(
        self, run: Run, attempt: Attempt, interruption: Interruption, resumed: Path | None
    ) -> None:
        self._run = run
        self._attempt = attempt
        self._interruption = interruption
        self._resumed = resumed
        self._mirror: Mirror | None = None
        self._begun = time.perf_counter()
        self.reading_data = False

    def result(self) -> dict[str, Any] | None:
        """Train to the last step, evaluate, store the weights; returns what result.json says.

        Of several ranks only the first evaluates and returns anything.
        """
        config = parse(self._run.record()["config"])
        kind = machine.set_up(config.trainer)
        task = task_of(config)
        facts = self._data(task)
        with self._log(config) as log:
            stage = Stage(task, self._run, self._attempt, log, self._interruption)
            recorder = Recorder(stage)
            torch.manual_seed(derive(config.seed, "weights"))
            model = self._with_weights(task, task.build())
            parts = _micro_batches(stage)
            module, self._energy = TrainingModule(task, model, parts), Energy(kind)
            with self._interruption.deferred():
                device = train(stage, recorder, module, kind, self._resumed)
            self._interruption.check()
            if ranks.rank():
                return None
            metrics = self._test(stage, model, device)
        weights = model.state_dict()
        checkpoint.save(weights, self._attempt.checkpoint_dir / WEIGHTS, self._run.id)
        steps, seconds = config.trainer.steps, recorder.seconds
        tokens, trained = task.data.tokens_seen(steps), seconds - recorder.seconds_before
        return {
            "metrics": metrics,
            "validation": recorder.validation,
            "steps": steps,
            "tokens_seen": tokens,
            "seconds": seconds,
            "overhead_seconds": time.perf_counter() - self._begun - trained,
            "tokens_per_second": tokens / seconds if steps else None,
            "micro_batches": parts,
            **self._device(kind),
            "weights_sha256": checkpoint.weights_digest(weights),
            "data": facts,
        }

    def _device(self, kind: str) -> dict[str, Any]:
        """What ran it, and what that took; energy where this process alone trained all of it."""
        told = machine.used(kind, ranks.world())
        return told if self._resumed or ranks.world() > 1 else told | self._energy.joules()

    def close(self, code: int) -> None:
        """Let the mirror end with the job's exit code."""
        if self._mirror is not None:
            self._mirror.finish(code)

    @contextmanager
    def _log(self, config: RunConfig) -> Iterator[MetricsLog]:
        if ranks.rank():
            yield NullLog()
            return
        self._mirror = Mirror(config.logger, self._run)
        with self._attempt.metrics() as writer:
            yield MetricsLog(writer, self._mirror)

    def _data(self, task: Task) -> dict[str, Any]:
        self._attempt.heartbeat(phase="prepare")
        self.reading_data = True
        facts = open_data(task, self._run.outputs)
        self.reading_data = False
        return facts

    def _with_weights(self, task: Task, model: nn.Module) -> nn.Module:
        """The model, with what it inherits, and compiled if that is asked."""
        if task.config.parent is not None and self._resumed is None:
            parent = RunStore(self._run.outputs).run(task.config.parent)
            heads = parent.record()["config"]["model"]["heads"]
            task.inherit(model, adapted(model, final_weights(parent, "parent"), heads))
        if task.config.trainer.compile:
            from tasks.training.compile_cache import compile_blocks

            compile_blocks(model, self._run.outputs, self._attempt.path / "compiled")
        return model

    def _test(self, stage: Stage, model: nn.Module, device: torch.device) -> dict[str, float]:
        self._attempt.heartbeat(phase="test")
        trainer = stage.task.config.trainer
        evaluator = Evaluator(device, trainer.precision, stage.attempt.advance)
        metrics = stage.task.evaluate(model, "test", evaluator)
        stage.log.row(trainer.steps, metrics)
        stage.log.sync()
        for name, value in metrics.items():
            if not math.isfinite(value):
                raise NotFinite(name, value, trainer.steps)
        for name, content in stage.task.files().items():
            publish_json(self._attempt.path / name, content)
        return metrics


def _micro_batches(stage: Stage) -> int:
    """The parts of a batch that this attempt is to work off one by one.

    Raises:
        UserError: an earlier attempt with as few rows at a time ran out of memory.
    """
    asked = int(stage.attempt.info().get("micro_batches", 1))
    if asked == 1:
        return 1
    batch = stage.task.data.batch(1)
    rows = len(next(iter(batch.values()))) if stage.task.separable else 1
    if asked >= 2 * (most := max(rows // ranks.world(), 1)):
        expected = f"a batch that can be split further, but {most} parts took too much memory"
        remedy = "make the model smaller or take a GPU with more memory"
        raise wrong("hydra.sweeper.on_oom", "halve", expected, remedy)
    return min(asked, most)
