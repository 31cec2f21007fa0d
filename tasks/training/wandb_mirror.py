"""The mirror of a run in Weights & Biases. It follows the run and can never hold it up.

Everything that touches W&B happens in a thread of its own behind a queue: whatever W&B does (it is
absent, cannot reach its server, is killed, hangs), the run computes the same bits and ends.
"""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Mapping
from typing import Any

from sweeper.store.runs import Run
from tasks.config.sections import LoggerSection

INIT_SECONDS = 20
FINISH_SECONDS = 60
MOST_LETTERS = 64  # of a tag; W&B refuses a run with a longer one
STEP = "trainer/global_step"  # the name W&B's tools and Lightning's users expect the step under

Message = tuple[int, Mapping[str, float]] | int
"""A row of metrics, or the exit code that ends the mirror."""


class Mirror:
    """Sends rows to W&B if the config asks for it; otherwise does nothing and imports nothing."""

    def __init__(self, section: LoggerSection, run: Run) -> None:
        self._messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._section, self._run = section, run
        self._thread: threading.Thread | None = None
        if section.name == "wandb" and section.mode != "disabled":
            self._thread = threading.Thread(target=self._follow, name="wandb", daemon=True)
            self._thread.start()

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Hand a row over; returns at once."""
        if self._thread is not None:
            self._messages.put((step, dict(values)))

    def finish(self, code: int) -> None:
        """Hand the exit code over and wait, but not for ever, until W&B has everything."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._messages.put(code)
            thread.join(FINISH_SECONDS)
            if thread.is_alive():
                _warn(f"it has not finished after {FINISH_SECONDS} s; `wandb sync` can do so later")

    def _follow(self) -> None:
        # The edge to a library that may raise anything: whatever it is, the run goes on without.
        try:
            self._send()
        except BaseException as error:
            _warn(_line(error))

    def _send(self) -> None:
        run = _started(_arguments(self._section, self._run))
        while True:
            message = self._messages.get()
            if isinstance(message, int):
                run.finish(exit_code=message)
                return
            step, values = message
            run.log({**values, STEP: step})


def _started(arguments: dict[str, Any]) -> Any:
    """Return a W&B run; offline where it should be online and the server is out of reach."""
    import wandb  # a second, and absent on some machines: only where it is asked for

    settings = wandb.Settings(**_SETTINGS)
    try:
        run = wandb.init(settings=settings, **arguments)
    except wandb.errors.Error as error:
        if arguments["mode"] != "online":
            raise
        _warn(f"{_line(error)}; kept offline, `wandb sync` can send it later", "not online")
        wandb.teardown()  # else the run's id would count as taken
        run = wandb.init(settings=settings, **{**arguments, "mode": "offline"})
    run.define_metric(STEP)
    run.define_metric("*", step_metric=STEP, step_sync=True)
    return run


# Lean and silent: no console capture, no system metrics, no list of installed packages.
_SETTINGS: dict[str, Any] = {
    "console": "off",
    "silent": True,
    "disable_git": True,
    "save_code": False,
    "init_timeout": INIT_SECONDS,
    "finish_timeout": FINISH_SECONDS,
    "x_disable_stats": True,
    "x_save_requirements": False,
}


def _arguments(section: LoggerSection, run: Run) -> dict[str, Any]:
    """Return the arguments of wandb.init; all runs share one folder, so `wandb sync` finds them."""
    record = run.record()
    config, names = record["config"], record.get("names") or {}
    # W&B cannot group by tags: what a panel groups by is in the config, as a key of its own.
    mirrored = {**config, "size": record.get("size") or {}, "names": names}
    tags = (names.get("experiment"), config["task"]["name"], config["model"]["name"])
    return {
        "id": run.id,
        "resume": "allow",
        "mode": section.mode,
        "project": section.project,
        "entity": section.entity,
        "name": names.get("label") or run.id,
        "group": names.get("experiment"),
        "job_type": names.get("arm"),
        "tags": list(dict.fromkeys(str(tag)[:MOST_LETTERS] for tag in tags if tag)),
        "config": mirrored,
        "dir": str(run.outputs),
    }


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split()) or 'no message'}"


def _warn(what: str, state: str = "off") -> None:
    text = f"warning: W&B is {state} for this run ({what}); the run is not affected."
    print(text, file=sys.stderr)
