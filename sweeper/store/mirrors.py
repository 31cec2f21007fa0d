"""Weights & Biases: its folders in the outputs folder, and the tags of runs."""

import glob
from pathlib import Path

from sweeper.store.plans import newest, runs_of

MOST_LETTERS = 64  # of a tag; W&B refuses a run with a longer one


def folders(outputs: Path, id: str, *, offline: bool = False) -> list[Path]:
    """Return the folders in which W&B keeps a run of this id, oldest first.

    `offline`: only those that `wandb sync` uploads.
    """
    prefix = "offline-run" if offline else "*run"
    return sorted(
        (outputs / "wandb").glob(f"{prefix}-????????_??????-{glob.escape(id)}")
    )


def tags(outputs: Path) -> dict[str, list[str]]:
    """Return for each run a tag for each experiment whose newest plan uses it."""
    found: dict[str, list[str]] = {}
    for name, plan in newest(outputs).items():
        for run in runs_of(plan, name):
            found.setdefault(run, []).append(name[:MOST_LETTERS])
    return found
