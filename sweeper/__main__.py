"""What a sweep is doing and what came of it: states, tables and verdicts, figures, one page."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path

from rich.console import Console
from rich.text import Text

from sweeper.arguments import OPTIONS, POSITIONAL, Parser, Terminal, Version
from sweeper.store.errors import Faults, UserError, shown
from sweeper.store.files import make_directory
from sweeper.store.plans import damaged


def main(arguments: Sequence[str] | None = None, program: str = "python -m sweeper") -> int:
    """The command line; the exit code."""
    options = _parser(program).parse_args(arguments)
    os.umask(0o077)  # as SECURITY.md says: for the owner alone
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal may know ASCII alone
    console = Terminal(highlight=False)
    try:
        options.faults = Faults()
        if into := getattr(options, "into", None):
            make_directory(into, 0o755)  # for others to enter
        code: int = options.command(console, options)
        faults = [*options.faults, *damaged(options.outputs)]
        for fault in faults:
            print(f"error: {shown(fault, 2000)}", file=sys.stderr)
        return code or int(bool(faults))
    except (UserError, OSError) as error:  # of the disk, or of what reads the output
        print(f"error: {shown(_said(error, hasattr(options, 'into')), 2000)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _said(error: Exception, elsewhere: bool) -> str:
    """The sentence; of a file that cannot be written with the option that writes elsewhere."""
    if elsewhere and isinstance(error, OSError) and error.filename:
        reason = f"{error.filename} cannot be written ({error.strerror})"
        return f"{reason}; free the place, or name another folder with -o."
    return str(error)


def _status(console: Console, options: argparse.Namespace) -> int:
    from sweeper.status import lines, print_status, watch

    if options.watch:
        watch(console, options.outputs, options.experiments, every=options.all)
        return 0
    found = list(lines(options.outputs, options.experiments))
    if options.json:
        print(json.dumps([line.described() for line in found], indent=1))
    else:
        print_status(console, found, every=options.all)
    return 0


def _collect(console: Console, options: argparse.Namespace) -> int:
    from sweeper.outcome import collect_and_judge, print_tables, relative_path

    into = options.into or options.outputs
    found = collect_and_judge(options.outputs, options.experiments, into, options.faults)
    for path in print_tables(console, into, *found):
        console.print(Text(f"\n{relative_path(path)}"), soft_wrap=True)
    return 0


def _draw(console: Console, options: argparse.Namespace) -> int:
    from sweeper.results.collect import write_tables
    from sweeper.results.draw import write_figures

    into, faults = options.into or options.outputs, options.faults
    tables = write_tables(options.outputs, options.experiments, into, faults)
    for path in write_figures(into, tables, faults):
        console.print(Text(str(path)), soft_wrap=True)
    return 0


def _report(console: Console, options: argparse.Namespace) -> int:
    from sweeper.outcome import collect_and_judge
    from sweeper.results.report.page import write_report

    into = options.into or options.outputs
    found = collect_and_judge(options.outputs, options.experiments, into, options.faults)
    console.print(Text(str(write_report(options.outputs, *found, into))), soft_wrap=True)
    return 0


def _forget(console: Console, options: argparse.Namespace) -> int:
    from sweeper.forget import forget

    return 0 if forget(console, options.outputs, options.name, yes=options.yes) else 1


def _pack(console: Console, options: argparse.Namespace) -> int:
    from sweeper.packing import pack

    how = {"wheels": options.wheels, "max_mb": options.max_mb}
    pack(console, options.outputs.absolute(), options.experiments, options.output, **how)
    return 0


def _merge(console: Console, options: argparse.Namespace) -> int:
    from sweeper.carry.merge import merge

    merged = merge(options.outputs.absolute(), options.file)
    for line in (*merged.kept, merged.in_words()):
        console.print(Text(line), soft_wrap=True)
    return 1 if merged.kept else 0


def _decide(console: Console, options: argparse.Namespace) -> int:
    from sweeper.results.collect import collect
    from sweeper.results.prices import print_prices
    from sweeper.store.runs import RunStore

    store = RunStore(options.outputs)
    for table in collect(options.outputs, options.experiments, options.faults):
        with options.faults.of(table.name):
            print_prices(console, store, [table], options.effect)
    return 0


def _compare(console: Console, options: argparse.Namespace) -> int:
    from sweeper.results.compare import compare

    return compare(console, options.outputs, *options.sides)


def _dashboard(console: Console, options: argparse.Namespace) -> int:
    from sweeper.outcome import collect_and_judge
    from sweeper.results.wandb.publish import publish_dashboard

    found = collect_and_judge(options.outputs, options.experiments)
    where = publish_dashboard(options.outputs, *found, options.project, offline=options.offline)
    console.print(Text(where), soft_wrap=True)
    return 0


_COMMANDS = (
    (
        "status",
        _status,
        "what is running, done, failed and why",
        "Counts the runs of each experiment's newest plan; lists those neither new nor done.",
    ),
    (
        "collect",
        _collect,
        "write the table of each experiment and judge its claims",
        "Reads the records anew; writes DIR/tables/<experiment>.csv, .json, .claims.json and, "
        "of what a paper prints as a table, .printed.txt, .csv and .tex.",
    ),
    (
        "draw",
        _draw,
        "draw the figures of each experiment from its records",
        "Writes DIR/figures/<experiment>.pdf, .png and .svg; equal records give equal bytes.",
    ),
    (
        "report",
        _report,
        "write one HTML page of all that is known, to read or to share",
        "Writes DIR/report.html: states, verdicts, figures to point at, training curves, "
        "tables to sort and filter, provenance. It needs no other file and no network.",
    ),
    (
        "forget",
        _forget,
        "remove what an experiment has left, or a run, once it was listed and agreed to",
        "Runs that another plan has stay, unless they are named; nothing goes while it is trained.",
    ),
    (
        "decide",
        _decide,
        "say what each claim's answer would cost in seeds, runs and device hours; train nothing",
        "Prices are those of an answer at the differences measured so far, at a difference of a "
        "given size, and where there is none; from the spread of the runs that are done.",
    ),
    (
        "compare",
        _compare,
        "say what differs between two sweeps, and which claims have another answer",
        "Each is an outputs folder, a plan (its number or file) or an experiment; of another "
        "folder as in FOLDER/fig1. Exit code 1 where an answer flipped.",
    ),
    (
        "pack",
        _pack,
        "write what is not done of experiments into one file, to be trained on another machine",
        "It holds records, prepared data and the code that trains; there, unpacked, "
        "`python run.py` needs PyTorch and little more, and no network.",
    ),
    (
        "merge",
        _merge,
        "bring home what `python run.py` of a pack has left",
        "Puts its runs, verified, where they would lie had they been trained here.",
    ),
    (
        "dashboard",
        _dashboard,
        "show the experiments in Weights & Biases, as a saved view with their results",
        "Saves a view of the project that the runs are mirrored to, and sends of each experiment "
        "table, figures and verdicts; prints the address of the view. Needs a key and "
        'pip install "wandb-workspaces>=0.4.13"; docs/wandb.md says more.',
    ),
)


_SWEEP = "What trains is a command of its own: python sweep.py, or installed headroom sweep."


def _parser(program: str) -> argparse.ArgumentParser:
    parser = Parser(prog=program, description=__doc__, epilog=_SWEEP)
    parser.add_argument("--version", action=Version, nargs=0, help="print the version and stop")
    commands = parser.add_subparsers(required=True, metavar="command")
    for name, command, told, more in _COMMANDS:
        sub = commands.add_parser(
            name, help=told, description=f"{told[0].upper()}{told[1:]}. {more}"
        )
        sub.add_argument(**POSITIONAL.get(name, POSITIONAL[""]))
        sub.add_argument(
            "--outputs",
            type=Path,
            default=Path("outputs"),
            metavar="DIR",
            help="where the sweep wrote (default: %(default)s)",
        )
        sub.set_defaults(command=command)
        for option, about in OPTIONS.get(name, {}).items():
            sub.add_argument(option, **about)
    return parser


if __name__ == "__main__":
    sys.exit(main())
