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

from sweeper.cli.arguments import OPTIONS, POSITIONAL, TOLD, Parser, Terminal, Version
from sweeper.store.errors import Faults, UserError, sanitize
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
            print(f"error: {sanitize(fault, 2000)}", file=sys.stderr)
        return code or int(bool(faults))
    except (UserError, OSError) as error:  # of the disk, or of what reads the output
        print(f"error: {sanitize(_said(error, hasattr(options, 'into')), 2000)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _said(error: Exception, elsewhere: bool) -> str:
    """Return the error in a sentence; `elsewhere`: the command can write to another folder."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    if elsewhere and error.filename:
        reason = f"{error.filename} cannot be written ({error.strerror})"
        return f"{reason}; free the place, or name another folder with -o."
    return f"{error.filename or 'a file'}: {error.strerror}."


def _status(console: Console, options: argparse.Namespace) -> int:
    from sweeper.cli.status import lines, print_status, watch

    if options.watch:
        watch(console, options.outputs, options.experiments, every=options.all)
        return 0
    found = list(lines(options.outputs, options.experiments))
    if options.json:
        print(json.dumps([line.described() for line in found], indent=1))
    else:
        print_status(console, found, every=options.all)
    return int(any(line.damaged for line in found))


def _collect(console: Console, options: argparse.Namespace) -> int:
    from sweeper.publish import collect_and_judge, print_tables, relative_path

    into = options.into or options.outputs
    found = collect_and_judge(options.outputs, options.experiments, into, options.faults)
    for path in print_tables(console, into, *found):
        console.print(Text(f"\n{relative_path(path)}"), soft_wrap=True)
    return 0


def _draw(console: Console, options: argparse.Namespace) -> int:
    from sweeper.results.collect import collect, write_tables
    from sweeper.results.draw import write_figures

    into, faults = options.into or options.outputs, options.faults
    tables = collect(options.outputs, options.experiments, faults)
    for path in write_figures(into, write_tables(into, tables, faults), faults):
        console.print(Text(str(path)), soft_wrap=True)
    return 0


def _report(console: Console, options: argparse.Namespace) -> int:
    from sweeper.publish import collect_and_judge
    from sweeper.results.report.page import write_report

    into = options.into or options.outputs
    found = collect_and_judge(options.outputs, options.experiments, into, options.faults)
    console.print(Text(str(write_report(options.outputs, *found, into))), soft_wrap=True)
    return 0


def _forget(console: Console, options: argparse.Namespace) -> int:
    from sweeper.cli.forget import forget

    return 0 if forget(console, options.outputs, options.name, yes=options.yes) else 1


def _archive(console: Console, options: argparse.Namespace) -> int:
    from sweeper.cli.archive import archive
    from sweeper.publish import relative_path

    made, gone = archive(options.outputs, options.name)
    where = relative_path(made) if made else "nothing new"
    runs = "1 run" if gone == 1 else f"{gone} runs"
    console.print(Text(f"{where}; removed the folders of {runs}"), soft_wrap=True)
    return 0


def _pack(console: Console, options: argparse.Namespace) -> int:
    from sweeper.cli.pack import pack

    how = {"wheels": options.wheels, "max_mb": options.max_mb}
    pack(console, options.outputs.absolute(), options.experiments, options.output, **how)
    return 0


def _merge(console: Console, options: argparse.Namespace) -> int:
    from sweeper.export.pack import merge

    merged = merge(options.outputs.absolute(), options.file)
    for line in (*merged.kept, merged.summary()):
        console.print(Text(line), soft_wrap=True)
    return 1 if merged.kept else 0


def _bundle(console: Console, options: argparse.Namespace) -> int:
    from sweeper.export.bundle import write_bundle

    written = write_bundle(options.outputs.absolute(), options.experiments, options.output)
    console.print(Text(f"{written}: {written.stat().st_size / 10**6:.1f} MB"), soft_wrap=True)
    return 0


def _judge(console: Console, options: argparse.Namespace) -> int:
    from sweeper.export.bundle import judge_again

    return judge_again(console, options.file, options.into or Path("judged"))


def _decide(console: Console, options: argparse.Namespace) -> int:
    from sweeper.results.collect import collect
    from sweeper.results.deciding_costs import print_costs
    from sweeper.store.runs import RunStore

    store = RunStore(options.outputs)
    for table in collect(options.outputs, options.experiments, options.faults):
        with options.faults.of(table.name):
            print_costs(console, store, [table], options.effect)
    return 0


def _compare(console: Console, options: argparse.Namespace) -> int:
    from sweeper.results.compare import compare

    return compare(console, options.outputs, *options.sides)


def _dashboard(console: Console, options: argparse.Namespace) -> int:
    from sweeper.publish import collect_and_judge
    from sweeper.results.dashboard import publish_dashboard

    found = collect_and_judge(options.outputs, options.experiments)
    where = publish_dashboard(options.outputs, *found, options.project, offline=options.offline)
    console.print(Text(where), soft_wrap=True)
    return 0


_COMMANDS = {
    "status": _status,
    "collect": _collect,
    "draw": _draw,
    "report": _report,
    "forget": _forget,
    "archive": _archive,
    "decide": _decide,
    "compare": _compare,
    "pack": _pack,
    "merge": _merge,
    "bundle": _bundle,
    "judge": _judge,
    "dashboard": _dashboard,
}


_SWEEP = "What trains is a command of its own: python sweep.py, or installed headroom sweep."


def _parser(program: str) -> argparse.ArgumentParser:
    parser = Parser(prog=program, description=__doc__, epilog=_SWEEP)
    parser.add_argument("--version", action=Version, nargs=0, help="print the version and stop")
    commands = parser.add_subparsers(required=True, metavar="command")
    for name, command in _COMMANDS.items():
        told, more = TOLD[name]
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
