"""What run.py does in an unpacked pack: train its runs, and write what came of them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from enum import EnumType
from pathlib import Path
from typing import Any, TypeVar, get_origin, get_type_hints

from sweeper.carry.archive import MANIFEST, write_archive
from sweeper.carry.run_files import run_files
from sweeper.options import SweepOptions
from sweeper.run.backend import (
    BackendContext,
    Job,
    JobState,
    LimitedOptions,
    Phase,
    Resources,
    counts,
)
from sweeper.run.backends import local
from sweeper.run.schedule import Schedule
from sweeper.run.stop import Stopped, StopSignals
from sweeper.size_server import size_server
from sweeper.store.errors import UserError, invalid_value
from sweeper.store.files import read_versioned
from sweeper.store.runs import RunStore, State

RESULTS = "results.tar"
Options = TypeVar("Options", bound=LimitedOptions)


def main(folder: Path, arguments: Sequence[str]) -> int:
    """Train and write the results; the exit code, as of a sweep."""
    options = _parser().parse_args(arguments)
    try:
        manifest = read_versioned(folder / MANIFEST, keys=("runs", "options"))
        assert manifest is not None
        store = RunStore(folder / "outputs")
        values = _changed(manifest["options"], options.overrides)
        how = _made(SweepOptions, values), _made(local.Options, values)
        code = train(store, manifest["runs"], *how)
        written = write_results(
            folder, store, manifest, weights=options.weights, max_mb=options.max_mb
        )
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    names = " ".join(path.name for path in written)
    print(f"bring home {names}; there: python -m sweeper merge {RESULTS}")
    if len(written) > 1:
        print(f"(its parts become one by: cat {RESULTS}.* > {RESULTS})")
    return code


def train(
    store: RunStore,
    runs: Mapping[str, Mapping[str, Any]],
    options: SweepOptions,
    launcher: local.Options,
) -> int:
    """Train runs on this machine: 0 if all are done, 1 if not, 130 or 143 when asked to stop.

    Args:
        runs: what each costs, its parent and its label, by id.
    """
    store.check_writable()
    jobs = [Job(run, about["cost"], about["parent"]) for run, about in runs.items()]
    with StopSignals() as signals, size_server() as process:
        context = BackendContext(
            options=launcher,
            resources=frozenset(Resources.of_record(store.run(run).path) for run in runs),
            logger="none",
            outputs=store.outputs,
            process=process,
        )
        schedule = Schedule(
            store,
            local.backend(context),
            jobs,
            changed=lambda schedule, state: _say(schedule, state, runs),
            policy=options,
            watchdog=options.watchdog(),
            check_for_stop=signals.check,
        )
        with signals.held():
            try:
                return 0 if schedule.execute() else 1
            except Stopped as stopped:
                print(f"{stopped}: what ran was saved. The same command again continues.")
                return stopped.code


def write_results(
    folder: Path,
    store: RunStore,
    manifest: Mapping[str, Any],
    *,
    weights: bool,
    max_mb: float | None,
) -> list[Path]:
    """Write what came of each run that was begun here and that nobody trains now."""
    begun = [
        run
        for run in map(store.run, manifest["runs"])
        if run.attempts() and run.status().state is not State.RUNNING
    ]
    files = {name: file for run in begun for name, file in run_files(run, weights=weights).items()}
    about = {"kind": "results", "runs": [run.id for run in begun]}
    return write_archive(folder / RESULTS, files, about, max_mb)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python run.py",
        description="Train the runs of this folder; the same command again continues.",
    )
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="KEY=VALUE",
        help="a key of hydra.launcher or hydra.sweeper, as at home: hydra.launcher.slots=2",
    )
    parser.add_argument(
        "--no-weights",
        dest="weights",
        action="store_false",
        help=f"leave out of {RESULTS} what was learned: it is much smaller, and nothing at home "
        "can start from it",
    )
    parser.add_argument(
        "--max-mb", type=float, metavar="N", help=f"write {RESULTS} in parts of at most N MB"
    )
    return parser


def _changed(options: Mapping[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """The options with what was typed here; numbers, null, true and false are written as JSON."""
    changed = dict(options)
    for override in overrides:
        key, equals, value = override.partition("=")
        if key not in options or not equals:
            raise invalid_value(
                "run.py", override, f"KEY=VALUE, one of {', '.join(options)}", "correct it"
            )
        try:
            changed[key] = json.loads(value)
        except ValueError:
            changed[key] = value
    return changed


def _made(kind: type[Options], values: Mapping[str, Any]) -> Options:
    """Options of a kind from values by key, each of the type that Hydra would want at home."""
    hints = get_type_hints(kind)
    keys = {field.name: f"{kind.section}.{field.name}" for field in fields(kind)}
    return kind(**{name: _typed(key, values[key], hints[name]) for name, key in keys.items()})


def _typed(key: str, value: Any, hint: Any) -> Any:
    if isinstance(hint, EnumType):
        if value in list(hint):
            return hint(value)
        raise invalid_value(key, value, f"one of {', '.join(map(str, hint))}", "correct the value")
    plain = get_origin(hint) if get_origin(hint) is list else hint
    if isinstance(value, plain) or (isinstance(value, int) and isinstance(1.0, plain)):
        return value
    expected = getattr(hint, "__name__", str(hint)).replace("None", "null")
    raise invalid_value(key, value, f"a value of type {expected}", "correct the value")


def _say(schedule: Schedule, state: JobState | None, runs: Mapping[str, Mapping[str, Any]]) -> None:
    """A line for each run that starts or ends; plain, so that it needs no library."""
    if state is not None:
        done = counts(schedule.states)[Phase.DONE]
        label = runs[state.job.run]["label"]
        place = f"[{done}/{len(schedule.states)}]"
        print(f"{place} {state.phase:8} {label}  {state.reason}".rstrip(), flush=True)
