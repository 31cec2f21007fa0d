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
    "merge": {"dest": "file", "type": Path, "metavar": "FILE", "help": "results.tar"},
}


_INTO: dict[str, dict[str, Any]] = {
    "-o": {
        "dest": "into",
        "type": Path,
        "metavar": "FOLDER",
        "help": "write here instead of in DIR, for others to read",
    },
}

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
        "-o": {
            "dest": "output",
            "type": Path,
            "default": Path("sweep.tar"),
            "metavar": "FILE",
            "help": "what to write (default: %(default)s)",
        },
        "--max-mb": {
            "type": float,
            "metavar": "N",
            "help": "where it would be larger: parts of at most N MB, FILE.001 and so on",
        },
        "--wheels": {"type": Path, "metavar": "DIR", "help": "wheels to take along"},
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
