"""One training job, from the record of a run to its result.

A job claims a new attempt at the run, builds the data and the model, loads the newest intact
checkpoint, trains (loop.py), evaluates, and publishes the result.

The job reads the record in the run's directory. It writes result.json, or exit.json with the cause
if it fails. This file is stop 5 of the road through the code in CONTRIBUTING.md. Read loop.py next,
and then tasks/<name>/task.py.
"""

import faulthandler
import math
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from models.block import compile_blocks
from sweeper.store.attempts import VISIBLE, Attempt, Cause
from sweeper.store.errors import UserError
from sweeper.store.files import publish_json
from sweeper.store.liveness import HEARTBEAT_SECONDS, Watcher, alive
from sweeper.store.runs import Run, RunStore
from tasks import checkpoint, ranks
from tasks.batch import rows_of
from tasks.checkpoint import WEIGHTS
from tasks.config.sections import RunConfig
from tasks.data import TaskData
from tasks.module import TaskModule
from tasks.parse import data_of, module_of, parse
from tasks.training import machine
from tasks.training.causes import Interrupted, NotFinite, cause_of, message_of
from tasks.training.distributed import SecondaryAttempt
from tasks.training.evaluate import evaluate
from tasks.training.loop import train
from tasks.training.progress import RunContext, remove_all
from tasks.training.wandb_mirror import Mirror

INTERRUPTED = os.EX_TEMPFAIL  # an exit code of sysexits.h, which means "try again"


class Elsewhere(Exception):
    """The error raised if another process is training the run. The message names its attempt."""


class Job(RunContext):
    """A training job, or the part of it that one rank does.

    On rank 0, the constructor claims a new attempt at the run. On the other ranks, it joins this
    attempt. The method `work` trains.

    Raises:
        Elsewhere: another process is already training the run.
    """

    def __init__(self, run: Run) -> None:
        self._config = run.record().config
        self._notices: list[str] = []
        claimed = self._claim(run) if ranks.rank() == 0 else None
        # The other ranks join the attempt of rank 0, and load the same checkpoint as rank 0.
        joined = ranks.broadcast(claimed)
        assert joined is not None
        path, self._resumed = joined
        kind = SecondaryAttempt if ranks.rank() else Attempt
        super().__init__(run, kind(path, Watcher()))

        self._begun = time.perf_counter()
        # True while a UserError would be about the data. Otherwise it is about the config.
        self._reading_data = False
        self._over = threading.Event()
        # The file descriptor of the original stderr. `work` redirects stderr to the log.
        self._terminal = 2

    def _claim(self, run: Run) -> tuple[Path, Path | None]:
        """Claim a new attempt. Return its path and the path of the newest intact checkpoint.

        The path of the checkpoint is None if there is no intact checkpoint.
        """
        resumed = None
        for path in run.checkpoints():
            try:
                checkpoint.verify(path, run.id)
            except checkpoint.Damaged as error:
                self._notices.append(f"checkpoint {path} is not used: {error}.")
            else:
                resumed = path
                break
        self._notices.append(
            f"this attempt continues from {resumed}"
            if resumed
            else "this attempt starts from step 0"
        )

        _raise_if_training(run.attempts())
        trainer = self._config["trainer"]
        configured = trainer.get("micro_batches", 1)
        parts = 1 if configured == "auto" else configured
        facts = {
            "resumed_from": int(resumed.stem.removeprefix("step-")) if resumed else 0,
            "continues": int(resumed.parent.parent.name) if resumed else 0,
            "visible_gpus": os.environ.get(VISIBLE),
            "parent_weights": None if resumed else self._weights_of_parent(run),
            "micro_batches": max(run.micro_batches(), parts),
            **machine.facts(machine.kind_of(trainer["accelerator"])),
            **machine.code_of(self._config),
        }
        attempt = run.claim(facts)
        # If two processes have claimed at the same moment, only the one with the lower number
        # trains.
        try:
            _raise_if_training(
                [one for one in run.attempts() if one.number < attempt.number]
            )
        except Elsewhere as elsewhere:
            attempt.finish(Cause.INTERRUPTED, str(elsewhere))
            raise
        return attempt.path, resumed

    def _weights_of_parent(self, run: Run) -> str | None:
        """Return the sha256 of the parent's final weights, or None if the run has no parent."""
        parent = self._config.get("parent")
        if parent is None:
            return None
        result = RunStore(run.outputs).run(parent).result()
        return result.weights_sha256 if result else None

    def work(self) -> int:
        """Train and publish the result, or record why the attempt ended. Return the exit code."""
        try:
            # Defer signals until the log exists, because the log reports why a job stopped.
            with self.interruption.deferred():
                self.interruption.install()
                self._terminal = redirected_output(self.attempt.log_path)
                # If this job hangs, the watchdog in sweeper/run sends SIGUSR1. The job then prints
                # the stacks of all its threads.
                faulthandler.register(signal.SIGUSR1)
                threading.Thread(
                    target=self._heartbeat, name="heartbeat", daemon=True
                ).start()
            self.interruption.check()

            for notice in self._notices:
                print(notice)

            result = self._train()
            if result is None:
                return 0  # rank 0 publishes the result

            # Training is done, so publish the result even if a signal arrives.
            with self.interruption.deferred():
                first = self.run.publish_result(self.attempt, result)
                self._close_mirror(0)
                self._over.set()
                if not first:
                    self._finish(Cause.DONE)
                self.attempt.clear()
                remove_all(self.run)
        except BaseException as error:  # any error ends the attempt, so record it
            with self.interruption.deferred():
                return self._ended_by(error)
        return 0

    def _train(self) -> dict[str, Any] | None:
        """Train, evaluate and save the final weights.

        Return the content of result.json on rank 0, and None on the other ranks.
        """
        config = parse(self._config)
        kind = machine.set_up(config.trainer)
        data = self._prepared(config)
        if ranks.rank() == 0:
            self.metrics_file = self.attempt.metrics()
            if config.logger.name == "wandb" and config.logger.mode != "disabled":
                self.mirror = Mirror(config.logger, self.run)

        module = module_of(config, data)
        if self._resumed is None:
            module.setup("fit")
        if config.trainer.compile:
            compile_blocks(module.model)
        parts = self._micro_batches(data)

        with self.interruption.deferred():
            recorder = train(self, module, kind, parts, self._resumed)
        self.interruption.check()
        # `broadcast` also makes the other ranks wait until rank 0 has written the task's files.
        metrics = ranks.broadcast(self._test(module))
        if ranks.rank():
            return None

        weights = module.model.state_dict()
        checkpoint.save(weights, self.attempt.checkpoint_dir / WEIGHTS, self.run.id)
        steps = config.trainer.steps
        seconds, waited = recorder.times.tolist()
        tokens, trained = data.tokens_seen(steps), seconds - recorder.seconds_before
        return {
            "metrics": metrics,
            "validation": recorder.validation,
            "steps": steps,
            "tokens_seen": tokens,
            "seconds": seconds,
            **({"waited_seconds": waited} if kind == "cpu" and waited >= 0 else {}),
            "overhead_seconds": time.perf_counter() - self._begun - trained,
            "tokens_per_second": tokens / seconds if steps else None,
            "micro_batches": parts,
            **machine.used(kind, ranks.world()),
            "weights_sha256": checkpoint.weights_digest(weights),
            "data": data.facts,
        }

    def _prepared(self, config: RunConfig) -> TaskData:
        """Prepare the data of the run unless another process has done so. Open and return them."""
        data = data_of(config, self.run.outputs)
        self.attempt.heartbeat(phase="prepare")
        self._reading_data = True
        data.prepare_data()
        data.setup("fit")
        self._reading_data = False
        return data

    def _micro_batches(self, data: TaskData) -> int:
        """Return the number of micro-batches into which each step splits the rows of this rank.

        A micro-batch has at least one row.
        """
        asked: int = self.attempt.info()["micro_batches"]
        if asked == 1:
            return 1

        # The last step may have more rows than the first, because the second phase of a
        # pre-training can have larger batches.
        steps = {1, data.config.trainer.steps or 1}
        rows = max(rows_of(data.batch(step)) for step in steps)
        most = max(rows // ranks.world(), 1) if data.separable else 1
        self.attempt.heartbeat(most_parts=most)
        return min(asked, most)

    def _test(self, module: TaskModule) -> dict[str, float]:
        """Evaluate the test split, write its metrics and the task's files, and return the metrics.

        Raises:
            NotFinite: a metric is nan or infinite.
        """
        self.attempt.heartbeat(phase="test")
        steps = module.config.trainer.steps
        metrics = evaluate(module, "test", between=self.between_batches)
        self.log(steps, metrics)
        self.sync()
        for name, value in metrics.items():
            if not math.isfinite(value):
                raise NotFinite(name, value, steps)
        for name, content in module.files().items() if ranks.rank() == 0 else ():
            publish_json(self.attempt.path / name, content)
        return metrics

    def _ended_by(self, error: BaseException) -> int:
        """Record the error that ended the attempt, and return the exit code."""
        # If a stop was requested, ignore the error: a library may have caught Interrupted and
        # raised another one.
        if self.interruption.requested:
            error = Interrupted("a signal stopped the job")
        cause, message = cause_of(error, self._reading_data), message_of(error)
        interrupted = cause is Cause.INTERRUPTED

        if not interrupted and not isinstance(error, UserError):
            traceback.print_exc()
        print(f"{cause}: {message}", file=sys.stderr)
        os.write(self._terminal, f"{self.run.id}: {cause}: {message}\n".encode())

        code = INTERRUPTED if interrupted else 1
        self._close_mirror(code)
        self._finish(cause, message)
        return code

    def _close_mirror(self, code: int) -> None:
        # Clear the attribute first, so that an error in `finish` cannot close the mirror again.
        mirror, self.mirror = self.mirror, None
        if mirror is not None:
            mirror.finish(code)

    def _finish(self, cause: Cause, message: str = "") -> None:
        self._over.set()
        try:
            self.attempt.finish(cause, message)
        except OSError as error:
            # The disk may be full. The log already names the cause, so continue without exit.json.
            print(f"exit.json could not be written: {error}", file=sys.stderr)

    def _heartbeat(self) -> None:
        while not self._over.wait(HEARTBEAT_SECONDS):
            self.attempt.heartbeat()


def redirected_output(path: Path) -> int:
    """Redirect stdout and stderr to a file. Return a file descriptor of the original stderr."""
    sys.stdout.flush()
    sys.stderr.flush()
    before = os.dup(2)
    print(f"log: {path}", file=sys.stderr, flush=True)
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    return before


def _raise_if_training(attempts: Sequence[Attempt]) -> None:
    """Raise Elsewhere if the process of one of these attempts is certainly alive."""
    for attempt in attempts:
        if attempt.alive() and alive(attempt.info()):
            raise Elsewhere(
                f"attempt {attempt.number} is already training this run; wait for it, or stop it"
            )
