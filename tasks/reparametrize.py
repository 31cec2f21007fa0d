"""`python -m tasks.reparametrize RUN shared_size=N [key=value ...]`: a trained run, heads sharing.

Makes a run whose parent is RUN and whose attention is collaborative, of that shared size, and
evaluates it; trainer.steps=N fine-tunes it first. It is an ordinary run, named by its content:
typed again it is the same one, and a sweep that plans it finds it done.
"""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sweeper.store.errors import UserError, wrong
from sweeper.store.identity import run_id
from sweeper.store.runs import Run, RunStore

USAGE = "usage: python -m tasks.reparametrize RUN shared_size=N [trainer.steps=N] [key=value ...]"
SHORT = {"shared_size": "model.attention.shared_size"}


def reparametrized(parent: Run, changes: Mapping[str, Any]) -> Run:
    """Return the frozen run that re-parametrises `parent`, with further changes of its config.

    Raises:
        UserError: the parent is not done, or no run can have this config.
    """
    from tasks.parse import parse  # not before --help is answered
    from tasks.server.sizes import size

    if parent.result() is None:
        raise wrong("run", parent.path, "a finished run", "train it first")
    record = parent.record()
    config = copy.deepcopy(record["config"])
    config["model"]["attention"] = {"name": "collaborative", "shared_size": None}
    config["trainer"]["steps"] = 0
    config["parent"] = parent.id
    for key, value in changes.items():
        _set(config, key, value)
    parse(config)
    words = " ".join(f"{key.rpartition('.')[2]}={value}" for key, value in changes.items())
    names = {**record["names"], "label": f"{record['names']['label']} {words}".strip()}
    made = {"id": run_id(config), "config": config, "size": size(config), "names": names}
    return RunStore(parent.outputs).freeze(made)


def main(arguments: Sequence[str]) -> int:
    """Make the run, do its job, print what both measure; the exit code is the job's."""
    if arguments[:1] in (["-h"], ["--help"]):
        print(f"{USAGE}\n\n{__doc__}")
        return 0
    if not arguments:
        print(USAGE, file=sys.stderr)
        return 2
    try:
        parent = Run.open(Path(arguments[0]))
        run = reparametrized(parent, dict(map(_read, arguments[1:])))
        # In a process of its own, since a job takes over the terminal's output for its log.
        code = subprocess.run([sys.executable, "-m", "tasks.train", str(run.path)]).returncode
        result, before = run.result(), parent.result()
    except (UserError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    if result and before:
        _print(run, parent, result["metrics"], before["metrics"])
    return code


def _read(argument: str) -> tuple[str, Any]:
    key, equals, text = argument.partition("=")
    if not equals:
        raise UserError(f"{argument!r} cannot be read; write key=value, as in shared_size=32.")
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    return SHORT.get(key, key), value


def _set(config: dict[str, Any], key: str, value: Any) -> None:
    *path, last = key.split(".")
    section: Any = config
    for name in path:
        section = section.get(name) if isinstance(section, dict) else None
    if not isinstance(section, dict) or last not in section:
        expected = "a key of the run's config"
        raise wrong(key, value, expected, "see run.json, or write shared_size=N")
    section[last] = value


def _print(
    run: Run, parent: Run, metrics: Mapping[str, float], before: Mapping[str, float]
) -> None:
    sys.stdout.write(f"{run.path}\n{'':24}{'before':>12}{'after':>12}\n")
    for name in sorted(metrics.keys() & before.keys()):
        sys.stdout.write(f"{name:24}{before[name]:12.4f}{metrics[name]:12.4f}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
