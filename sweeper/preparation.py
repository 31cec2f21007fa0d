"""The data of a sweep, built before anything trains, once for each distinct one."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from sweeper.model_process import ModelProcess
from sweeper.store.errors import UserError, shown
from sweeper.store.files import make_directory, publish, read_bytes
from sweeper.store.identity import digest_of
from sweeper.store.runs import RunStore


def prepare(
    console: Console,
    store: RunStore,
    process: ModelProcess,
    configs: Mapping[str, Mapping[str, Any]],
    known: set[str],
    meanwhile: Callable[[], None] = lambda: None,
) -> None:
    """Build the data of runs, given with their configs, once for each distinct one.

    `known` are digests of what is built already, to which these come. `meanwhile` is called when
    that has begun: nothing trains yet.

    Raises:
        UserError: the data cannot be built; the log says why.
    """
    distinct: dict[str, str] = {}
    for run, config in configs.items():
        distinct.setdefault(digest_of([config["data"], config["task"]]), run)
    for run in (run for digest, run in distinct.items() if digest not in known):
        log = store.outputs / "data" / "prepare.log"
        make_directory(log.parent)
        publish(log, "", durable=False)
        with console.status("preparing data ..."):
            code = _prepared(process, store.run(run).path, log, meanwhile)
            if code < 0:  # killed, for want of memory perhaps: tried once more
                code = _prepared(process, store.run(run).path, log, meanwhile)
        if code != 0:
            said = (read_bytes(log) or b"").decode(errors="replace").split("\n")
            last = next((line for line in reversed(said) if line.strip()), "")
            reason = f"its process was killed (code {code})" if code < 0 else shown(last)
            raise UserError(f"the data could not be prepared: {reason} (log: {log})")
    known |= distinct.keys()


def _prepared(process: ModelProcess, run: Path, log: Path, meanwhile: Callable[[], None]) -> int:
    """Prepare the data of a run in a process of its own, which ends with this one; its code."""
    job = process.fork("prepare", run, environment={}, log=log)
    try:
        meanwhile()
        return process.exit_code(job)
    except KeyboardInterrupt:
        process.signal(job, signal.SIGKILL)
        raise
