"""The mirror of a run in Weights & Biases. It never delays training or changes a result.

A separate thread reads rows of metrics from a queue, and makes all calls to W&B. If W&B is missing,
cannot reach its server, is killed or hangs, the run still gets the same result.
"""

import os
import queue
import shutil
import sys
import threading
from collections.abc import Mapping
from typing import Any

from sweeper.store import mirrors
from sweeper.store.runs import Run
from tasks.config.sections import LoggerSection
from tasks.training.causes import message_of

# The key under which Lightning logs the step to W&B, and W&B's tools look for it.
STEP = "trainer/global_step"
INIT_SECONDS = 20
FINISH_SECONDS = 60

FROM_AGENT = (
    "WANDB_SWEEP_ID",
    "WANDB_SWEEP_PARAM_PATH",
    "WANDB_CONFIG_PATHS",
    "WANDB_RUN_ID",
    "WANDB_RUN_DIR",
    "WANDB_RESUME",
)
"""Environment variables of `wandb agent`, which would give every run the same id."""

Message = Mapping[str, float] | int
"""An item of the queue: a row of metrics, or an exit code, which is the last item."""


class Mirror:
    """A sender of rows of metrics to W&B. It starts a thread for the calls to W&B."""

    def __init__(self, section: LoggerSection, run: Run) -> None:
        self._messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._thread = threading.Thread(
            target=self._follow, args=(section, run), name="wandb", daemon=True
        )
        self._thread.start()

    def log(self, row: Mapping[str, float]) -> None:
        """Queue a row of metrics. Its key `step` is the number of the step."""
        self._messages.put(row)

    def finish(self, code: int) -> None:
        """Queue the exit code, and wait until W&B has received all rows, up to FINISH_SECONDS."""
        self._messages.put(code)
        self._thread.join(FINISH_SECONDS)
        if self._thread.is_alive():
            print(
                f"warning: W&B did not receive all rows of this run within {FINISH_SECONDS} s; "
                "`wandb sync` can upload the rest. The run is not affected.",
                file=sys.stderr,
            )

    def _follow(self, section: LoggerSection, run: Run) -> None:
        try:
            mirrored = start(section, run)
            while not isinstance(message := self._messages.get(), int):
                mirrored.log(_named(message))
            mirrored.finish(exit_code=message)
        except BaseException as error:
            # Catch every error, because W&B must not stop the run.
            _warn(message_of(error))


def start(section: LoggerSection, run: Run) -> Any:
    """Start a W&B run, and return it. If the server cannot be reached, start it offline.

    An offline W&B run writes a record, which `wandb sync` uploads later. If a run had a record for
    each attempt, each upload would overwrite the one before. Therefore the new record also gets the
    rows of earlier attempts, and the earlier records are deleted.
    """
    import wandb  # imported here because it takes a second and is optional

    for name in FROM_AGENT:
        os.environ.pop(name, None)

    record = run.record()
    config, names = record.config, record.names
    experiments = [names.get("experiment"), *mirrors.tags(run.outputs).get(run.id, ())]
    tags = [*experiments, config["task"]["name"], config["model"]["name"]]

    earlier = mirrors.folders(run.outputs, run.id, offline=True)
    arguments: dict[str, Any] = {
        "id": run.id,
        "resume": "allow",
        "mode": section.mode,
        "project": section.project,
        "entity": section.entity,
        "name": " ".join(names[key] for key in ("arm", "label") if names.get(key))
        or run.id,
        "group": names.get("experiment"),
        "job_type": names.get("arm"),
        "tags": list(
            dict.fromkeys(str(tag)[: mirrors.MOST_LETTERS] for tag in tags if tag)
        ),
        # Add the run's names and size to the config, because W&B cannot group panels by tags.
        "config": {**config, "size": record.size, "names": names},
        "dir": str(run.outputs),
        # Record only the metrics: no console output, system metrics or list of packages.
        "settings": wandb.Settings(
            console="off",
            silent=True,
            disable_git=True,
            save_code=False,
            init_timeout=INIT_SECONDS,
            finish_timeout=FINISH_SECONDS,
            x_disable_stats=True,
            x_save_requirements=False,
        ),
    }

    try:
        started = wandb.init(**arguments)
    except wandb.errors.Error as error:
        if section.mode != "online":
            raise
        words = f"{message_of(error)}; `wandb sync` can upload the metrics later"
        _warn(words, "offline")
        wandb.teardown()  # otherwise W&B would reject the run's id as a duplicate
        started = wandb.init(**{**arguments, "mode": "offline"})

    started.define_metric(STEP)
    started.define_metric("*", step_metric=STEP, step_sync=True)
    if started.offline:
        for row in _earlier_rows(run):
            started.log(_named(row))
        for folder in earlier:
            shutil.rmtree(folder, ignore_errors=True)
    return started


def _named(row: Mapping[str, float]) -> dict[str, float]:
    """Return a row of metrics in which the key `step` is renamed to STEP."""
    return {STEP if name == "step" else name: value for name, value in row.items()}


def _earlier_rows(run: Run) -> list[dict[str, Any]]:
    """Return the rows of earlier attempts, up to the step from which the newest one continues."""
    resumed = run.attempts()[-1].info().get("resumed_from", 0)
    return [row for row in run.history() if row["step"] <= resumed]


def _warn(what: str, state: str = "off") -> None:
    """Print a warning to the log."""
    text = f"warning: W&B is {state} for this run ({what}); the run is not affected."
    print(text, file=sys.stderr)
