"""The folders and the tags of runs that are logged to Weights & Biases (W&B)."""

import glob
from pathlib import Path

from sweeper.store.plans import newest, runs_of

MOST_LETTERS = 64  # W&B rejects a run that has a longer tag


def folders(outputs: Path, id: str, *, offline: bool = False) -> list[Path]:
    """Return the folders in which W&B stores the run with this id, oldest first.

    If `offline` is set, return only the folders that `wandb sync` would upload.
    """
    prefix = "offline-run" if offline else "*run"
    first = f"{prefix}-????????_??????-{glob.escape(id)}"

    # W&B appends a number to the folder of a run that starts again within one second.
    again = f"{first}-[0-9]*"
    parent = outputs / "wandb"
    return sorted([*parent.glob(first), *parent.glob(again)])


def tags(outputs: Path) -> dict[str, list[str]]:
    """Return the tags of each run, by run id. Each tag names an experiment that uses the run."""
    found: dict[str, list[str]] = {}
    for name, plan in newest(outputs).items():
        for run in runs_of(plan, name):
            found.setdefault(run, []).append(name[:MOST_LETTERS])
    return found
