"""What the commands of `python -m sweeper` take, as argparse is told; "" stands for most."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
    "merge": {"dest": "file", "type": Path, "metavar": "FILE", "help": "results.tar"},
}


_INTO: dict[str, dict[str, Any]] = {
    "-o": {
        "dest": "into",
        "type": Path,
        "metavar": "DIR",
        "help": "write into another folder, which others may read",
    },
}

OPTIONS: dict[str, dict[str, dict[str, Any]]] = {
    "collect": _INTO,
    "draw": _INTO,
    "report": _INTO,
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
