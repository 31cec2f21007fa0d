"""From a frozen record to a result: data, model, training, evaluation.

In: a run directory with its record, and the attempt that this process has claimed. Out: what
result.json says. On the road: `tasks.training.loop` trains, step by step.
"""

from __future__ import annotations

import faulthandler
import math
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sweeper.store.attempts import Attempt, Cause
from sweeper.store.code import COMMIT, differing, state_of
from sweeper.store.errors import UserError, invalid_value
from sweeper.store.files import publish_json
from sweeper.store.liveness import HEARTBEAT_SECONDS, Watcher, alive
from sweeper.store.runs import Run, RunStore, lineage
from tasks import ranks
from tasks.config.sections import RunConfig
from tasks.evaluation import Evaluator
from tasks.parse import parse
from tasks.prepare import open_data, task_of
from tasks.seeds import derive
from tasks.task import Task
from tasks.training import checkpoint, distributed, machine
from tasks.training.causes import NotFinite, cause_of, message_of
from tasks.training.checkpoint import WEIGHTS, adapted, final_weights
from tasks.training.loop import train
from tasks.training.module import TrainingModule
from tasks.training.progress import MetricsLog, NullLog, Recorder, Stage, leftovers, remove_all
from tasks.training.signals import Interrupted, Interruption
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
            module = TrainingModule(task, model, parts)
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
            **machine.used(kind, ranks.world()),
            "weights_sha256": checkpoint.weights_digest(weights),
            "data": facts,
        }

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
        raise invalid_value("hydra.sweeper.on_oom", "halve", expected, remedy)
    return min(asked, most)


INTERRUPTED = 75  # EX_TEMPFAIL of sysexits.h: try again


class Elsewhere(Exception):
    """Another process trains the run already; the message says which attempt."""


class Job:
    """One attempt at a run, from the claim to the exit code; of several ranks, one of them."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._notices: list[str] = []
        resumed = self._claim() if ranks.rank() == 0 else None
        if ranks.world() > 1:
            resumed = self._share(resumed)
        kind = distributed.SynchronizedStop if ranks.world() > 1 else Interruption
        self._interruption = kind(self._stop_at_once)
        self._fitting = Fitting(run, self._attempt, self._interruption, resumed)
        self._over = threading.Event()
        self._terminal = 2  # where a person reads; stderr, until that is the attempt's log

    def _claim(self) -> Path | None:
        resumed, self._notices = _newest_whole_checkpoint(self._run)
        _keep_out(self._run.attempts())
        step = int(resumed.stem.removeprefix("step-")) if resumed else 0
        config = self._run.record()["config"]
        asked = config["trainer"].get("micro_batches", 1)
        parts = max(self._run.micro_batches(), 1 if asked == "auto" else asked)
        about = machine.facts(machine.kind_of(config["trainer"]["accelerator"]))
        facts = {"resumed_from": step, "micro_batches": parts, **about, **machine.code_of(config)}
        if resumed:
            facts["continues"] = int(resumed.parent.parent.name)
            self._notices += _of_other_code(self._run, facts)
        self._attempt = self._run.claim(facts)
        try:  # of two that claimed at the same moment the one with the lower number stays
            _keep_out([one for one in self._run.attempts() if one.number < self._attempt.number])
        except Elsewhere as elsewhere:
            self._attempt.finish(Cause.INTERRUPTED, str(elsewhere))
            raise
        return resumed

    def _share(self, resumed: Path | None) -> Path | None:
        """Have every rank in the attempt of the first, and continue from the same checkpoint."""
        path, resumed = ranks.broadcast(
            (self._attempt.path if ranks.rank() == 0 else None, resumed)
        )
        if ranks.rank():
            assert path is not None
            self._attempt = distributed.SecondaryAttempt(path, Watcher())
        return resumed

    def work(self) -> int:
        """Train, publish and say how it ended."""
        try:
            with self._interruption.deferred():  # noted, until all is there that records it
                self._interruption.install()
                self._terminal = _redirected(self._attempt)
                faulthandler.register(signal.SIGUSR1)  # every stack, for a watchdog that asks
                threading.Thread(target=self._heartbeat, name="beat", daemon=True).start()
            self._interruption.check()
            self._begin()
            result = self._fitting.result()
            if result is None:
                return 0  # the first rank publishes
            with self._interruption.deferred():  # from here on the run is as good as done
                first = self._run.publish_result(self._attempt, result)
                self._fitting.close(0)
                self._over.set()
                if not first:
                    self._say(Cause.DONE, "", "")
                self._attempt.clear()
                remove_all(self._run)
        except BaseException as error:  # the edge of the process: whatever it was is recorded
            with self._interruption.deferred():
                return self._ended_by(error)
        return 0

    def _begin(self) -> None:
        for notice in self._notices:
            print(notice)
        for path in leftovers(self._run):
            path.unlink(missing_ok=True)

    def _ended_by(self, error: BaseException) -> int:
        if self._interruption.requested:  # whatever a library made of the signal
            error = error if isinstance(error, Interrupted) else Interrupted()
        cause = cause_of(error, self._fitting.reading_data)
        interrupted = cause is Cause.INTERRUPTED
        message = "asked to stop" if interrupted else message_of(error)
        trace = "" if interrupted or isinstance(error, UserError) else traceback.format_exc()
        print(trace, end="", file=sys.stderr)
        print(f"{cause}: {message}", file=sys.stderr)
        os.write(self._terminal, f"{self._run.id}: {cause}: {message}\n".encode())
        code = INTERRUPTED if interrupted else 1
        self._fitting.close(code)
        self._say(cause, message, trace)
        return code

    def _say(self, cause: Cause, message: str, trace: str) -> None:
        self._over.set()
        try:
            self._attempt.finish(cause, message, trace)
        except OSError as error:  # a full disk: the log has said it too
            print(f"exit.json cannot be written: {error}", file=sys.stderr)

    def _heartbeat(self) -> None:
        while not self._over.wait(HEARTBEAT_SECONDS):
            self._attempt.heartbeat()

    def _stop_at_once(self) -> None:
        """Called by a signal, so it takes no lock: the thread that it stops may hold it."""
        with suppress(OSError):
            self._attempt.finish(Cause.INTERRUPTED, "asked twice to stop")
        os._exit(INTERRUPTED)


def _keep_out(attempts: Sequence[Attempt]) -> None:
    """Raise Elsewhere if the process of one of the attempts provably lives."""
    for attempt in attempts:
        if attempt.exit() is None and alive(attempt.info()):
            raise Elsewhere(f"attempt {attempt.number} trains this run already")


def _newest_whole_checkpoint(run: Run) -> tuple[Path | None, list[str]]:
    """Return where to continue from, and what to tell about it."""
    notices = []
    for path in run.checkpoints():
        try:
            checkpoint.verify(path, run.id)
        except checkpoint.Damaged as error:
            notices.append(f"{path} is not used: {error}.")
        else:
            return path, [*notices, f"continues from {path}"]
    return None, [*notices, "starts from the beginning"]


def _of_other_code(run: Run, facts: Mapping[str, Any]) -> list[str]:
    """Return what to tell where another state of the code trained what is continued."""
    before = lineage(run, facts["continues"])
    now = {COMMIT: facts["code"], **facts["code_parts"]}
    changed = differing([*map(state_of, before), now])
    if not changed:
        return []
    told = f"another state of the code ({', '.join(str(one.get('code')) for one in before)})"
    return [f"{told} trained that; {', '.join(changed)} changed since"]


def _redirected(attempt: Attempt) -> int:
    """Send stdout and stderr to the attempt's log; returns where stderr went before."""
    sys.stdout.flush()
    sys.stderr.flush()
    before = os.dup(2)
    print(f"log: {attempt.log_path}", file=sys.stderr, flush=True)
    log = os.open(attempt.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    return before
