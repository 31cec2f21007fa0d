"""Training of the runs in an unpacked pack, which run.py starts, and their results in one file."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from sweeper.export.pack import check_output, parse_manifest, run_files, write_export
from sweeper.run.backend import BackendContext, Job, Resources
from sweeper.run.backends import local
from sweeper.run.failures import hours
from sweeper.run.options import LimitedOptions, SweepOptions
from sweeper.run.schedule import JobState, Phase, Schedule, counts
from sweeper.run.stop import Stopped, StopSignals
from sweeper.size_server import size_server
from sweeper.store.archive import MANIFEST, Content, check_manifest
from sweeper.store.errors import UserError, drop_output, invalid_value, sanitize
from sweeper.store.files import read_json
from sweeper.store.runs import RunStore, State

RESULTS = "results.zip"
# Options of planning, which has been done at home.
AT_HOME = tuple(
    f"hydra.sweeper.{key}"
    for key in ("dry_run", "decide", "pilot", "max_seeds", "until", "max_runs")
)

Options = TypeVar("Options", bound=LimitedOptions)


class PackedRun(BaseModel):
    """A run in the manifest of a pack."""

    cost: float  # training FLOPs
    parent: str | None
    label: str


class Pack(BaseModel):
    """The keys of the manifest of a pack."""

    options: dict[str, Any]
    runs: dict[str, PackedRun]
    spent_h: float = 0.0  # device hours at home, which count in a budget


def main(folder: Path, arguments: Sequence[str]) -> int:
    """Train, write the results, and return the exit code."""
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
        help=f"leave weights out of {RESULTS}: it is much smaller, and nothing at home can start "
        "from these runs",
    )
    parser.add_argument(
        "--max-mb", type=float, metavar="N", help=f"write {RESULTS} in parts of at most N MB"
    )
    typed = parser.parse_args(arguments)
    output = folder / RESULTS
    try:
        check_output(output, typed.max_mb)
        try:
            manifest = check_manifest(read_json(folder / MANIFEST))
        except ValueError as error:
            raise UserError(f"{sanitize(error)}; unpack it again.") from error
        pack = parse_manifest(folder, manifest, Pack)
        store = RunStore(folder / "outputs")
        values = dict(pack.options)
        known = [key for key in values if key not in AT_HOME]
        for override in typed.overrides:
            key, equals, value = override.partition("=")
            if key not in known or not equals:
                expected = f"KEY=VALUE, one of {', '.join(known)}"
                raise invalid_value("run.py", override, expected, "correct it")
            try:
                values[key] = json.loads(value)  # a number, null, true, false or a list
            except ValueError:
                values[key] = value
        options, launcher = _options(SweepOptions, values), _options(local.Options, values)
        code = train(store, pack, options, launcher)
        begun = [
            run
            for run in map(store.run, pack.runs)
            if run.attempts() and run.status().state is not State.RUNNING
        ]
        files: dict[str, Content] = {}
        for run in begun:
            files |= run_files(run, weights=typed.weights)
        about = {"runs": [run.id for run in begun]}
        written = write_export(output, "results", files, about, typed.max_mb)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    names = " ".join(path.name for path in written)
    say(f"copy {names} home, and merge it there as README.md says")
    if len(written) > 1:
        say(f"(join its parts by: cat {RESULTS}.* > {RESULTS})")
    return code


def train(store: RunStore, pack: Pack, options: SweepOptions, launcher: local.Options) -> int:
    """Train runs on this machine; return 0 if all are done, 1 if not, 130 or 143 after a stop."""
    runs = pack.runs

    def report(schedule: Schedule, state: JobState | None) -> None:
        if state is not None:  # plain text, since a machine for training may not have rich
            place = f"[{counts(schedule.states)[Phase.DONE]}/{len(schedule.states)}]"
            label = runs[state.job.run].label
            words = f"{place} {schedule.outcome(state):8} {label}  {state.reason}"
            say(words.rstrip())

    store.check_writable()
    jobs = [Job(run, about.cost, about.parent) for run, about in runs.items()]
    with StopSignals() as signals, closing(size_server()) as process:
        context = BackendContext(
            options=launcher,
            resources=frozenset(Resources.of_record(store.run(run).path) for run in runs),
            logger="none",
            outputs=store.outputs,
            process=process,
        )
        backend = local.backend(context)
        on = "GPUs" if backend.device == "gpu" else "the CPU"
        say(f"training on {on}, {backend.slots} at a time")
        schedule = Schedule(
            store,
            backend,
            jobs,
            changed=report,
            policy=options,
            check_for_stop=signals.check,
            spent_h=pack.spent_h + hours(store, runs),
        )
        with signals.held():
            try:
                done = schedule.execute()
                if schedule.breaker.tripped:
                    say(f"nothing more was started: {schedule.breaker.tripped}")
                return 0 if done else 1
            except Stopped as stopped:
                say(f"{stopped}: what ran was saved. The same command again continues.")
                return stopped.code


def say(words: str) -> None:
    """Print a line; once nobody reads the output, training goes on without it."""
    try:
        print(words, flush=True)
    except OSError:
        drop_output()


def _options(kind: type[Options], values: Mapping[str, Any]) -> Options:
    """Return options of a kind from values by key; UserError for a value of another type."""
    start = f"{kind.section}."
    own = {key.removeprefix(start): value for key, value in values.items() if key.startswith(start)}
    try:  # strictly, as Hydra at home: 1.0 and "1" are not whole numbers
        return TypeAdapter(kind).validate_json(json.dumps(own), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        key = f"{start}{first['loc'][0]}"
        value = sanitize(values.get(key))
        raise UserError(f"{key}={value}: {first['msg']}; correct the value.") from error
