"""Commands on the results of sweeps: show, judge, draw and remove them, or train planned runs.

To plan and train a sweep, run `python sweep.py`, or `headroom sweep` if Headroom is installed.
"""

from __future__ import annotations

import argparse
import inspect
import json
import sys
import tomllib
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from sweeper.cli.process import settle_process
from sweeper.store.errors import (
    Faults,
    UserError,
    as_typed,
    drop_output,
    exit_without_package,
    invalid_value,
    sanitize,
)

try:
    from sweeper.store.files import make_directory
    from sweeper.store.plans import damaged
    from sweeper.store.registry import ROOT
except ModuleNotFoundError as missing:
    exit_without_package(missing)

# Import rich only in the commands that print with it, since a machine that only trains may lack it.
if TYPE_CHECKING:
    from sweeper.stages.terminal import Terminal

Command = Callable[[Any, argparse.Namespace], int | None]
"""A function that executes a command. Its arguments are the console and the parsed options.

It returns the exit code, or None for 0. Its docstring is the help of the command."""


def main(
    arguments: Sequence[str] | None = None, program: str = "python -m sweeper"
) -> int:
    """Run a command line (default: `sys.argv[1:]`) and return the exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    flags = [word.partition("=")[0] for word in words if word.startswith("--")]
    for word in (*words[:1], *flags):
        if word in REMOVED:
            print(f"error: {word} was removed: {REMOVED[word]}.", file=sys.stderr)
            return 2
    if words[:1] == ["--version"]:
        print(_version())
        return 0
    options = _parser(program).parse_args(words)
    settle_process()
    if options.outputs.is_symlink():
        options.outputs = options.outputs.resolve()
    try:
        options.faults = Faults()
        if getattr(options, "into", None):
            options.into = options.into.resolve()  # FOLDER may be a link
            make_directory(options.into, 0o755)  # other users may read this folder
        code = options.command(_console(options.command), options)
        faults = [*options.faults, *damaged(options.outputs)]
        for fault in faults:
            print(f"error: {sanitize(fault, 2000)}", file=sys.stderr)
        return int(code or bool(faults))
    except OSError as error:
        if not error.filename:
            drop_output()
        place = error.filename or "the output cannot be written"
        reason = f"{place}: {error.strerror or error}"
        if error.filename and hasattr(options, "into"):
            reason += "; remove what is there, or name another folder with -o."
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("sweeper"):
            exit_without_package(error)
        reason = "This copy of the code only trains runs (`train`). Run other commands on the "
        reason += "machine where the sweep was planned."
    except UserError as error:
        reason = str(error)
    except KeyboardInterrupt:
        return 130
    print(f"error: {sanitize(reason, 2000)}", file=sys.stderr)
    return 2


def _console(command: Command) -> Terminal | None:
    """Return the console of a command. `train` has none, since `train` must work without rich."""
    if command is train:
        return None
    from sweeper.stages.terminal import Terminal

    return Terminal()


def train(_: None, options: argparse.Namespace) -> int:
    """Train all planned runs of the outputs folder that are not done, on this machine.

    Long runs start first. A run that starts from the weights of another run waits for that run.
    Ctrl-C and SIGTERM save and stop the runs in training. To continue, repeat the command. The
    command needs torch, pytorch-lightning, numpy, tokenizers and pydantic, but no network.
    """
    from sweeper.run.unfinished import train as train_unfinished

    return train_unfinished(
        options.outputs.resolve(),
        slots=options.slots,
        jobs_per_device=options.jobs_per_device,
    )


def status(console: Terminal, options: argparse.Namespace) -> int:
    """Print how many runs are new, running, done or failed, and why runs failed.

    The command counts the runs of each experiment, as the newest sweep planned them. Below
    these numbers, the command lists the runs that are neither new nor done.
    """
    from sweeper.cli.status import lines, print_status, watch

    if options.watch:
        watch(console, options.outputs, options.experiments, every=options.all)
        return 0
    found = list(lines(options.outputs, options.experiments))
    if options.json:
        print(json.dumps([line.as_data() for line in found], indent=1))
    else:
        print_status(console, found, every=options.all)
    return int(any(line.damaged for line in found))


def collect(console: Terminal, options: argparse.Namespace) -> None:
    """Write the table of each experiment and judge its claims.

    The command reads all records again. It writes DIR/tables/<experiment>.csv, .json and
    .claims.json. For experiments that reproduce a table of the paper, it also writes .printed.txt,
    .printed.csv and .printed.tex.
    """
    from sweeper.stages.publish import collect_and_judge, print_tables, relative_path

    into = options.into or options.outputs
    found = collect_and_judge(
        options.outputs, options.experiments, into, options.faults
    )
    for path in print_tables(console, into, *found):
        console.print_line(f"\n{relative_path(path)}")


def draw(console: Terminal, options: argparse.Namespace) -> None:
    """Draw the figures of each experiment from its records.

    The command writes DIR/figures/<experiment>.pdf, .png and .svg. The same records always give
    the same files, byte for byte.
    """
    from sweeper.results.collect import collect, write_tables
    from sweeper.results.figures import write_figures

    into, faults = options.into or options.outputs, options.faults
    tables = collect(options.outputs, options.experiments, faults)
    for path in write_figures(into, write_tables(into, tables, faults), faults):
        console.print_line(path)


def report(console: Terminal, options: argparse.Namespace) -> None:
    """Write one HTML page with all results, to read or to share.

    The page is DIR/report.html. It shows the states of runs, verdicts, figures, training curves,
    sortable tables, and how the results were made. It needs no other file and no network.
    """
    from sweeper.results.report.page import write_report
    from sweeper.stages.publish import collect_and_judge

    into = options.into or options.outputs
    found = collect_and_judge(
        options.outputs, options.experiments, into, options.faults
    )
    page = write_report(options.outputs, *found, into, faults=options.faults)
    console.print_line(page)


def forget(console: Terminal, options: argparse.Namespace) -> int:
    """Remove a run, or an experiment with its runs, after listing the files and asking.

    If you remove an experiment, runs that another experiment uses are kept. Nothing is removed
    while a sweep that needs the runs is training.
    """
    from sweeper.cli.forget import forget as remove

    return 0 if remove(console, options.outputs, options.name, yes=options.yes) else 1


def decide(console: Terminal, options: argparse.Namespace) -> None:
    """Print what deciding each claim would cost, in seeds, runs and device time.

    The command trains nothing. It assumes that the differences between arms and the spread between
    seeds stay as measured so far.
    """
    from sweeper.results.collect import collect
    from sweeper.results.summary import print_prices

    tables = collect(options.outputs, options.experiments, options.faults)
    print_prices(console, tables, options.faults)
    if not any(table.experiment.get("claims") for table in tables):
        console.print_line("No experiment has claims to decide (docs/decisions.md).")


def compare(console: Terminal, options: argparse.Namespace) -> int:
    """Print the differences between two sweeps, and the claims whose verdict changed.

    Each SWEEP is an outputs folder, the name of an experiment in DIR, such as fig1, or an
    experiment in another folder, such as FOLDER/fig1. The exit code is 1 if a verdict changed.
    """
    from sweeper.results.compare import compare as print_differences

    return print_differences(console, options.outputs, *options.sides)


def judge(console: Terminal, options: argparse.Namespace) -> int:
    """Judge scores from a CSV file, whether a sweep or another program wrote it.

    If a sweep wrote the file, its claims are judged, and you need no options. A file of your own
    has the columns arm (or point), seed and value, and may have metric, flops and seconds. Such a
    file needs --better, and each arm is compared with the baseline. docs/judging.md has examples.

    Exit code 0: a verdict is supported, and none is undecided. Exit code 1: no verdict is supported
    or undecided. Exit code 2: the input is wrong. Exit code 3: a verdict is undecided.
    """
    from dataclasses import asdict

    from sweeper.results import scores
    from sweeper.results.judge import lines, verdicts_on
    from sweeper.results.remarks import baseline_scores

    notes: list[str] = []
    if options.better is None:
        for name in ("margin", "baseline", "history"):
            value = getattr(options, name)
            if value is not None and options.scores.with_suffix(".json").is_file():
                expected = "no such option for a table that a sweep wrote"
                remedy = (
                    "leave it out, or add --better to judge the rows as plain scores"
                )
                raise invalid_value(f"--{name}", value, expected, remedy)
        table = scores.table_with_claims(options.scores)
        verdicts, notes = verdicts_on(table), baseline_scores(table)
    else:
        history = (
            None if options.history is None else scores.read_scores(options.history)
        )
        verdicts = scores.judge_scores(
            scores.read_scores(options.scores),
            better=options.better,
            margin=options.margin,
            pair=options.pair,
            baseline=options.baseline,
            history=history,
        )
    if options.json:
        print(json.dumps([asdict(verdict) for verdict in verdicts], indent=1))
    else:
        for line in (*lines(verdicts, console.width), *notes):
            console.print_line(line)
    return scores.exit_code(verdicts)


def dashboard(console: Terminal, options: argparse.Namespace) -> None:
    """Show the experiments in Weights & Biases, as a saved view with their results.

    The command uploads the table, figures and verdicts of each experiment to the project that the
    runs are mirrored to. Then it saves a view of the project and prints the URL of the view. The
    command needs an API key and pip install "wandb-workspaces>=0.4.13" (docs/wandb.md).
    """
    from sweeper.results.dashboard import publish_dashboard
    from sweeper.stages.publish import collect_and_judge

    found = collect_and_judge(options.outputs, options.experiments)
    where = publish_dashboard(
        options.outputs, *found, options.project, offline=options.offline
    )
    console.print_line(where)


class Parser(argparse.ArgumentParser):
    """An argument parser that prints an error as one sentence, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message}; {self.prog} --help says more.\n")


Arguments = dict[str, dict[str, Any]]
"""The arguments of a command. Each name maps to keywords for argparse's `add_argument`."""


def _flag(about: str) -> dict[str, Any]:
    return {"action": "store_true", "help": about}


EXPERIMENTS: Arguments = {
    "experiments": {
        "nargs": "*",
        "metavar": "experiment",
        "help": "the names of experiments (default: all experiments in DIR)",
    }
}
PUBLISHED: Arguments = {
    **EXPERIMENTS,
    "-o": {
        "dest": "into",
        "type": Path,
        "metavar": "FOLDER",
        "help": "write to this folder instead of DIR, and let other users read the folder",
    },
}
JSON: Arguments = {"--json": _flag("print JSON")}
COMMANDS: dict[Command, Arguments] = {
    train: {
        "--slots": {
            "type": int,
            "metavar": "N",
            "help": "train at most this many runs at the same time (default: as many as fit)",
        },
        "--jobs-per-device": {
            "type": int,
            "default": 1,
            "metavar": "N",
            "help": "let at most this many runs share one GPU (default: %(default)s)",
        },
    },
    status: {
        **EXPERIMENTS,
        "--all": _flag("also list runs that are new or done"),
        **JSON,
        "--watch": _flag("refresh until Ctrl-C"),
    },
    collect: PUBLISHED,
    draw: PUBLISHED,
    report: PUBLISHED,
    forget: {
        "name": {
            "metavar": "NAME | RUN",
            "help": "an experiment, or the id or description of a run "
            "('fig1/fixed heads=8 seed=0')",
        },
        "--yes": _flag("remove without asking"),
    },
    decide: EXPERIMENTS,
    judge: {
        "scores": {
            "type": Path,
            "metavar": "SCORES.csv",
            "help": "a file with one row for each arm and seed",
        },
        "--better": {
            "metavar": "lower|higher",
            "help": "which scores are better; for several metrics: loss=lower,accuracy=higher",
        },
        "--margin": {
            "metavar": "1%",
            "help": "the largest difference that does not matter: per cent, or the scores' unit",
        },
        "--pair": {
            "default": "seed",
            "metavar": "COLUMN",
            "help": "the column that pairs the rows of two arms (default: %(default)s)",
        },
        "--baseline": {
            "metavar": "NAME",
            "help": "the arm to compare the others with (default: the first)",
        },
        "--history": {
            "type": Path,
            "metavar": "PAST.csv",
            "help": "scores of earlier comparisons, to estimate the spread between seeds",
        },
        **JSON,
    },
    compare: {
        "sides": {"nargs": 2, "metavar": "SWEEP", "help": "the two sweeps to compare"},
    },
    dashboard: {
        **EXPERIMENTS,
        "--project": {
            "metavar": "ENTITY/PROJECT",
            "help": "the project to upload to (default: the project that the runs are mirrored to)",
        },
        "--offline": _flag(
            "write to DIR/wandb for a later `wandb sync`; needs no API key and saves no view"
        ),
    },
}


REMOVED = {
    "pack": "plan with hydra.sweeper.plan_only=true and copy the outputs folder, as "
    "docs/clusters.md shows",
    "merge": "copy the outputs folder back, as docs/clusters.md shows",
    "bundle": f"zip the outputs folder; {as_typed('collect')} judges its records again",
    "archive": "zip the outputs folder, and unzip the file before you run a command",
    "squad": "run SQuAD's evaluate-v1.1.py on predictions.json in the folder of a run's attempt",
    "--effect": "leave it out, since costs assume the difference that was measured so far",
}
"""Commands and options that earlier versions had, and what to do instead."""


def _version() -> str:
    """Return the name and version of the checkout or of the installed package."""
    project = ROOT / "pyproject.toml"
    if project.is_file():
        number = tomllib.loads(project.read_text("utf-8"))["project"]["version"]
    else:
        number = version("headroom-attention")
    return f"headroom-attention {number}"


def _parser(program: str) -> argparse.ArgumentParser:
    train = as_typed("sweep")
    epilog = f"To train: {train} -m experiment=fig1; {train} --help says more."
    parser = Parser(prog=program, description=__doc__, epilog=epilog)
    # Look up the version only for --version, since the copy of the code in outputs/code has none.
    about = "print the version and stop"
    parser.add_argument("--version", action="store_true", help=about)
    commands = parser.add_subparsers(required=True, metavar="command")
    if program == "headroom":
        # These parsers only list the commands in the help. headroom_attention/__main__.py executes
        # the commands.
        about = "plan and train a sweep, as python sweep.py does"
        commands.add_parser("sweep", help=about)
        about = "write a run's model as a folder for Hugging Face's transformers"
        commands.add_parser("export", help=about)
    for command, arguments in COMMANDS.items():
        about = inspect.getdoc(command) or ""
        # Without allow_abbrev=False, argparse would read `report --output FILE` as --outputs.
        sub = commands.add_parser(
            command.__name__,
            help=about.partition("\n")[0],
            description=about,
            allow_abbrev=False,
        )
        sub.add_argument(
            "--outputs",
            type=Path,
            default=Path("outputs"),
            metavar="DIR",
            help="the outputs folder of the sweep (default: %(default)s)",
        )
        sub.set_defaults(command=command)
        for argument, settings in arguments.items():
            sub.add_argument(argument, **settings)
    return parser


if __name__ == "__main__":
    sys.exit(main())
