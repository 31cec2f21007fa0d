"""The commands that read, judge, draw and move results.

Training is another command: python sweep.py, or when installed headroom sweep.
"""

import argparse
import inspect
import json
import sys
import tomllib
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console
from rich.text import Text

from sweeper.cli.terminal import PIPE_WIDTH, Terminal, settle_process
from sweeper.store.errors import (
    Faults,
    UserError,
    as_typed,
    drop_output,
    sanitize,
)
from sweeper.store.files import make_directory
from sweeper.store.numbers import plural
from sweeper.store.plans import damaged
from sweeper.store.registry import ROOT

Command = Callable[[Console, argparse.Namespace], int | None]
"""A command; it returns the exit code, None for 0."""


def main(arguments: Sequence[str] | None = None, program: str = "python -m sweeper") -> int:
    """Run a command line and return the exit code."""
    options = _parser(program).parse_args(arguments)
    settle_process()
    if options.outputs.is_symlink():
        options.outputs = options.outputs.resolve()
    console = Terminal(highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH)
    try:
        options.faults = Faults()
        if into := getattr(options, "into", None):
            make_directory(into, 0o755)  # for others to enter
        code = options.command(console, options)
        faults = [*options.faults, *damaged(options.outputs)]
        for fault in faults:
            print(f"error: {sanitize(fault, 2000)}", file=sys.stderr)
        return int(code or bool(faults))
    except OSError as error:
        reason = str(error)
        if not error.filename:
            drop_output()
        if error.strerror:
            reason = f"{error.filename or 'the output cannot be written'}: {error.strerror}"
        if error.strerror and error.filename and hasattr(options, "into"):
            reason = f"{error.filename} cannot be written ({error.strerror})"
            reason += "; free the place, or name another folder with -o."
    except UserError as error:
        reason = str(error)
    except KeyboardInterrupt:
        return 130
    print(f"error: {sanitize(reason, 2000)}", file=sys.stderr)
    return 2


def status(console: Console, options: argparse.Namespace) -> int:
    """Print which runs are running, done or failed, and why.

    Counts the runs of each experiment's newest plan; lists those neither new nor done.
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


def collect(console: Console, options: argparse.Namespace) -> None:
    """Write the table of each experiment and judge its claims.

    Reads the records again; writes DIR/tables/<experiment>.csv, .json, .claims.json and, for
    tables that a paper prints, .printed.txt, .csv and .tex.
    """
    from sweeper.publish import collect_and_judge, print_tables, relative_path

    into = options.into or options.outputs
    found = collect_and_judge(options.outputs, options.experiments, into, options.faults)
    for path in print_tables(console, into, *found):
        console.print(Text(f"\n{relative_path(path)}"), soft_wrap=True)


def draw(console: Console, options: argparse.Namespace) -> None:
    """Draw the figures of each experiment from its records.

    Writes DIR/figures/<experiment>.pdf, .png and .svg; equal records give equal bytes.
    """
    from sweeper.results.collect import collect, write_tables
    from sweeper.results.figures import write_figures

    into, faults = options.into or options.outputs, options.faults
    tables = collect(options.outputs, options.experiments, faults)
    for path in write_figures(into, write_tables(into, tables, faults), faults):
        console.print(Text(str(path)), soft_wrap=True)


def report(console: Console, options: argparse.Namespace) -> None:
    """Write one HTML page of all results, to read or to share.

    Writes DIR/report.html: states, verdicts, figures, training curves, tables to sort and filter,
    provenance. The page needs no other file and no network.
    """
    from sweeper.publish import collect_and_judge
    from sweeper.results.report.page import write_report

    into = options.into or options.outputs
    found = collect_and_judge(options.outputs, options.experiments, into, options.faults)
    console.print(Text(str(write_report(options.outputs, *found, into))), soft_wrap=True)


def forget(console: Console, options: argparse.Namespace) -> int:
    """Remove the results of an experiment, or a run, after listing them and asking.

    Runs of another plan stay, unless they are named; nothing is removed during training.
    """
    from sweeper.cli.forget import forget as remove

    return 0 if remove(console, options.outputs, options.name, yes=options.yes) else 1


def archive(console: Console, options: argparse.Namespace) -> None:
    """Put the finished runs of an experiment into one file, which all commands still read.

    Writes DIR/archives/NAME-0001.zip, reads it back and removes the folders of the runs; refuses
    while one of them is in training. `unzip` in DIR puts them back.
    """
    from sweeper.cli.forget import archive as make
    from sweeper.publish import relative_path

    made, gone = make(options.outputs, options.name)
    where = relative_path(made) if made else "nothing new"
    runs = plural(gone, "run")
    console.print(Text(f"{where}; removed the folders of {runs}"), soft_wrap=True)


def pack(console: Console, options: argparse.Namespace) -> None:
    """Write the unfinished runs of experiments into one file, to train on another machine.

    The zip has records, prepared data and the code that trains. Unpacked there, `python run.py`
    needs PyTorch and a few packages, and no network.
    """
    from sweeper.cli.pack import pack as write

    how = {key: getattr(options, key) for key in ("config_dir", "wheels", "python", "max_mb")}
    write(console, options.outputs.absolute(), options.experiments, options.output, **how)


def merge(console: Console, options: argparse.Namespace) -> int:
    """Import the results that `python run.py` of a pack wrote.

    Verifies them and puts the runs where they would be if they had been trained here.
    """
    from sweeper.export.pack import merge as take_in

    merged = take_in(options.outputs.absolute(), options.file)
    for line in (*merged.kept, merged.summary()):
        console.print(Text(line), soft_wrap=True)
    return 1 if merged.kept else 0


def bundle(console: Console, options: argparse.Namespace) -> None:
    """Write the results of experiments into one file, to judge elsewhere.

    The zip has records without weights, tables, figures, claims and the lock file, with the
    SHA-256 of each.
    """
    from sweeper.export.bundle import write_bundle

    written = write_bundle(options.outputs.absolute(), options.experiments, options.output)
    console.print(Text(f"{written}: {written.stat().st_size / 10**6:.1f} MB"), soft_wrap=True)


def judge(console: Console, options: argparse.Namespace) -> int:
    """Judge the claims of a bundle again and draw its figures, without training.

    Exit code 1 if a verdict differs from that in the bundle. A damaged bundle is refused.
    """
    from sweeper.export.bundle import judge_again

    return judge_again(console, options.file, options.into or Path("judged"))


def decide(console: Console, options: argparse.Namespace) -> None:
    """Print what deciding each claim would cost in seeds, runs and device hours.

    Trains nothing. Costs are those at the differences measured so far, at a difference of a given
    size, and without any; from the spread of finished runs.
    """
    from sweeper.results.collect import collect
    from sweeper.results.summary import print_costs
    from sweeper.store.runs import RunStore

    store = RunStore(options.outputs)
    for table in collect(options.outputs, options.experiments, options.faults):
        with options.faults.of(table.name):
            print_costs(console, store, [table], options.effect)


def compare(console: Console, options: argparse.Namespace) -> int:
    """Print the differences between two sweeps, and the claims whose verdict changed.

    Each is an outputs folder, a plan (its number or file) or an experiment; in another folder as
    FOLDER/fig1. Exit code 1 if a verdict changed.
    """
    from sweeper.results.compare import compare as print_differences

    return print_differences(console, options.outputs, *options.sides)


def dashboard(console: Console, options: argparse.Namespace) -> None:
    """Show the experiments in Weights & Biases, as a saved view with their results.

    Saves a view of the project that the runs are mirrored to, and sends the table, figures and
    verdicts of each experiment; prints the address of the view. It needs a key and
    pip install "wandb-workspaces>=0.4.13" (docs/wandb.md).
    """
    from sweeper.publish import collect_and_judge
    from sweeper.results.dashboard import publish_dashboard

    found = collect_and_judge(options.outputs, options.experiments)
    where = publish_dashboard(options.outputs, *found, options.project, offline=options.offline)
    console.print(Text(where), soft_wrap=True)


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message}; {self.prog} --help says more.\n")


class Version(argparse.Action):
    """The action that prints the version of the checkout or of the installed package."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        about = ROOT / "pyproject.toml"
        try:
            number = tomllib.loads(about.read_text("utf-8"))["project"]["version"]
        except OSError:
            number = version("headroom-attention")
        parser.exit(0, f"headroom-attention {number}\n")


Argument = tuple[str, dict[str, Any]]
"""The name and the settings of an argument, as argparse takes them."""


def _argument(name: str, **settings: Any) -> Argument:
    return name, settings


def _flag(name: str, about: str) -> Argument:
    return _argument(name, action="store_true", help=about)


def _into(about: str) -> Argument:
    return _argument("-o", dest="into", type=Path, metavar="FOLDER", help=about)


def _file(default: str) -> Argument:
    about = "what to write (default: %(default)s)"
    return _argument(
        "-o", dest="output", type=Path, default=Path(default), metavar="FILE", help=about
    )


EXPERIMENTS = _argument(
    "experiments",
    nargs="*",
    metavar="experiment",
    help="which experiments (default: all that were planned)",
)
PUBLISHED = [EXPERIMENTS, _into("write here instead of in DIR, for others to read")]
COMMANDS: dict[Command, list[Argument]] = {
    status: [
        EXPERIMENTS,
        _flag("--all", "also list runs new and done"),
        _flag("--json", "print plain data for programs"),
        _flag("--watch", "refresh until Ctrl-C"),
    ],
    collect: PUBLISHED,
    draw: PUBLISHED,
    report: PUBLISHED,
    forget: [
        _argument("name", metavar="NAME | RUN", help="an experiment, or a run's id"),
        _flag("--yes", "do not ask"),
    ],
    archive: [_argument("name", metavar="EXPERIMENT", help="which experiment")],
    decide: [
        EXPERIMENTS,
        _argument("--effect", metavar="SIZE", help="of a difference: 1%%, or in the metric's unit"),
    ],
    compare: [_argument("sides", nargs=2, metavar="SWEEP", help="what to compare")],
    pack: [
        _argument(
            "experiments",
            nargs="+",
            metavar="EXPERIMENT | KEY=VALUE",
            help="which experiments; with overrides they are planned anew, as by sweep.py",
        ),
        _file("sweep.zip"),
        _argument(
            "--max-mb",
            type=float,
            metavar="N",
            help="write a larger file in parts of at most N MB: FILE.001 and so on",
        ),
        _argument("--config-dir", metavar="DIR", help="yaml files of your own, as for sweep.py"),
        _argument("--wheels", type=Path, metavar="DIR", help="a folder of wheels to pack too"),
        _argument(
            "--python",
            metavar="3.12-x86_64",
            help="pack wheels of what a machine with PyTorch and Lightning may lack, "
            "for its Python and processor",
        ),
    ],
    merge: [_argument("file", type=Path, metavar="FILE", help="results.zip")],
    bundle: [
        _argument("experiments", nargs="+", metavar="EXPERIMENT", help="which"),
        _file("bundle.zip"),
    ],
    judge: [
        _argument("file", type=Path, metavar="FILE", help="the bundle"),
        _into("where tables and figures are written (default: judged)"),
    ],
    dashboard: [
        EXPERIMENTS,
        _argument(
            "--project",
            metavar="ENTITY/PROJECT",
            help="where to (default: where the runs are mirrored to)",
        ),
        _flag("--offline", "keep it in DIR/wandb for `wandb sync` and save no view; needs no key"),
    ],
}


def _parser(program: str) -> argparse.ArgumentParser:
    train = as_typed("sweep")
    epilog = f"To train: {train} -m experiment=fig1; {train} --help says more."
    parser = Parser(prog=program, description=__doc__, epilog=epilog)
    parser.add_argument("--version", action=Version, nargs=0, help="print the version and stop")
    commands = parser.add_subparsers(required=True, metavar="command")
    if program == "headroom":  # headroom_attention/__main__.py takes it before this parser does
        commands.add_parser("sweep", help="plan, train and publish, as python sweep.py does")
        commands.add_parser("train", help="train one run that is planned")
        commands.add_parser("export", help="write a run's model for transformers to load")
        commands.add_parser("squad", help="score answers to SQuAD's questions")
    for command, arguments in COMMANDS.items():
        name, about = command.__name__, inspect.getdoc(command) or ""
        first = about.partition("\n")[0].rstrip(".")
        words = f"{first[0].lower()}{first[1:]}"
        # Without abbreviations: `bundle --output FILE` would be taken for --outputs.
        sub = commands.add_parser(name, help=words, description=about, allow_abbrev=False)
        sub.add_argument(
            "--outputs",
            type=Path,
            default=Path("outputs"),
            metavar="DIR",
            help="where the sweep wrote (default: %(default)s)",
        )
        sub.set_defaults(command=command)
        for argument, settings in arguments:
            sub.add_argument(argument, **settings)
    return parser


if __name__ == "__main__":
    sys.exit(main())
