"""What the commands of `python -m sweeper` take, as argparse is told, and where they print."""

from __future__ import annotations

import argparse
import os
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console

from sweeper.store.errors import UserError
from sweeper.store.registry import ROOT


class Terminal(Console):
    """Where a command prints; once nobody reads it, it ends in a sentence."""

    def on_broken_pipe(self) -> NoReturn:
        """Called by rich. What stdout still holds goes nowhere, or Python complains at its end."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        raise UserError("Nobody reads any more what this prints; what was written stays.")


class Parser(argparse.ArgumentParser):
    """Says what is wrong with a command line in one sentence."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message}; {self.prog} --help says more.\n")


class Version(argparse.Action):
    """Prints the version: that of the checkout, or of what is installed."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        about = ROOT / "pyproject.toml"
        try:
            told = tomllib.loads(about.read_text())["project"]["version"]
        except OSError:
            told = version("headroom-attention")
        parser.exit(0, f"headroom-attention {told}\n")


TOLD = {
    "status": (
        "what is running, done, failed and why",
        "Counts the runs of each experiment's newest plan; lists those neither new nor done.",
    ),
    "collect": (
        "write the table of each experiment and judge its claims",
        "Reads the records anew; writes DIR/tables/<experiment>.csv, .json, .claims.json and, "
        "of what a paper prints as a table, .printed.txt, .csv and .tex.",
    ),
    "draw": (
        "draw the figures of each experiment from its records",
        "Writes DIR/figures/<experiment>.pdf, .png and .svg; equal records give equal bytes.",
    ),
    "report": (
        "write one HTML page of all that is known, to read or to share",
        "Writes DIR/report.html: states, verdicts, figures to point at, training curves, "
        "tables to sort and filter, provenance. It needs no other file and no network.",
    ),
    "forget": (
        "remove what an experiment has left, or a run, once it was listed and agreed to",
        "Runs that another plan has stay, unless they are named; nothing goes while it is trained.",
    ),
    "archive": (
        "put the finished runs of an experiment into one file, which all commands still read",
        "Writes DIR/archives/NAME-0001.zip, reads it back and removes the folders of the runs; "
        "refused while one of them is in training. `unzip` in DIR puts them back.",
    ),
    "decide": (
        "say what each claim's answer would cost in seeds, runs and device hours; train nothing",
        "Prices are those of an answer at the differences measured so far, at a difference of a "
        "given size, and where there is none; from the spread of the runs that are done.",
    ),
    "compare": (
        "say what differs between two sweeps, and which claims have another answer",
        "Each is an outputs folder, a plan (its number or file) or an experiment; of another "
        "folder as in FOLDER/fig1. Exit code 1 where an answer flipped.",
    ),
    "pack": (
        "write the unfinished runs of experiments into one file, to train on another machine",
        "The zip has records, prepared data and the code that trains. Unpacked there, "
        "`python run.py` needs PyTorch and a few packages, and no network.",
    ),
    "merge": (
        "import the results that `python run.py` of a pack wrote",
        "Verifies them and puts the runs where they would be if they had been trained here.",
    ),
    "bundle": (
        "write the results of experiments into one file, to judge elsewhere",
        "The zip has records without weights, tables, figures, claims and the lock file, with the "
        "SHA-256 of each.",
    ),
    "judge": (
        "judge the claims of a bundle again and draw its figures, without training",
        "Exit code 1 if an answer differs from that in the bundle. A damaged bundle is refused.",
    ),
    "dashboard": (
        "show the experiments in Weights & Biases, as a saved view with their results",
        "Saves a view of the project that the runs are mirrored to, and sends of each experiment "
        "table, figures and verdicts; prints the address of the view. Needs a key and "
        'pip install "wandb-workspaces>=0.4.13"; docs/wandb.md says more.',
    ),
}
"""Of each command what it does, in a line, and more."""

# "" stands for most commands.
POSITIONAL: dict[str, dict[str, Any]] = {
    "": {
        "dest": "experiments",
        "nargs": "*",
        "metavar": "experiment",
        "help": "which experiments (default: all that were planned)",
    },
    "pack": {
        "dest": "experiments",
        "nargs": "+",
        "metavar": "EXPERIMENT | KEY=VALUE",
        "help": "which experiments; with overrides they are planned anew, as by sweep.py",
    },
    "compare": {"dest": "sides", "nargs": 2, "metavar": "SWEEP", "help": "what to compare"},
    "forget": {"dest": "name", "metavar": "NAME | RUN", "help": "an experiment, or a run's id"},
    "archive": {"dest": "name", "metavar": "EXPERIMENT", "help": "which experiment"},
    "merge": {"dest": "file", "type": Path, "metavar": "FILE", "help": "results.zip"},
    "bundle": {"dest": "experiments", "nargs": "+", "metavar": "EXPERIMENT", "help": "which"},
    "judge": {"dest": "file", "type": Path, "metavar": "FILE", "help": "the bundle"},
}


_INTO: dict[str, dict[str, Any]] = {
    "-o": {
        "dest": "into",
        "type": Path,
        "metavar": "FOLDER",
        "help": "write here instead of in DIR, for others to read",
    },
}


def _file(default: str) -> dict[str, Any]:
    about = {"dest": "output", "type": Path, "default": Path(default), "metavar": "FILE"}
    return {**about, "help": "what to write (default: %(default)s)"}


OPTIONS: dict[str, dict[str, dict[str, Any]]] = {
    "collect": _INTO,
    "draw": _INTO,
    "report": _INTO,
    "forget": {"--yes": {"action": "store_true", "help": "do not ask"}},
    "status": {
        "--all": {"action": "store_true", "help": "also list runs new and done"},
        "--json": {"action": "store_true", "help": "print plain data for programs"},
        "--watch": {"action": "store_true", "help": "refresh until Ctrl-C"},
    },
    "pack": {
        "-o": _file("sweep.zip"),
        "--max-mb": {
            "type": float,
            "metavar": "N",
            "help": "write a larger file in parts of at most N MB: FILE.001 and so on",
        },
        "--wheels": {"type": Path, "metavar": "DIR", "help": "a folder of wheels to pack too"},
    },
    "bundle": {"-o": _file("bundle.zip")},
    "judge": {
        "-o": {**_INTO["-o"], "help": "where tables and figures are written (default: judged)"},
    },
    "decide": {
        "--effect": {"metavar": "SIZE", "help": "of a difference: 1%%, or in the metric's unit"}
    },
    "dashboard": {
        "--project": {
            "metavar": "ENTITY/PROJECT",
            "help": "where to (default: where the runs are mirrored to)",
        },
        "--offline": {
            "action": "store_true",
            "help": "keep it in DIR/wandb for `wandb sync` and save no view; needs no key",
        },
    },
}
