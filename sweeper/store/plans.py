"""What a plan is on disk: a numbered file, written once, the newest last."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sweeper.store.errors import shown, wrong
from sweeper.store.files import FORMAT, canonical, make_directory, publish_sealed, read_versioned

_NUMBERED = re.compile(r"\d{4,9}\.json")


# What the same plan made again may say otherwise.
_PASSING = ("format", "number", "estimate")


def write_plan(outputs: Path, plan: Mapping[str, Any]) -> Path:
    """Writes a plan under the next number; the newest plan's path where that says the same.

    `estimate`, seconds of training by run, is what was thought when it was first made.
    """
    paths = _paths(outputs)
    if paths and _content(read_versioned(paths[-1]) or {}) == _content(plan):
        return paths[-1]
    folder = outputs / "plans"
    make_directory(folder)
    for number in itertools.count(int(paths[-1].stem) + 1 if paths else 1):
        path = folder / f"{number:04d}.json"
        value = {**plan, "format": FORMAT, "number": number}
        if publish_sealed(path, value):
            break
    return path


def plans(outputs: Path) -> list[dict[str, Any]]:
    """All plans, oldest first."""
    found = (read_versioned(path, keys=("experiments",)) for path in _paths(outputs))
    return [plan for plan in found if plan]


def newest(outputs: Path) -> dict[str, dict[str, Any]]:
    """The newest plan of each experiment that was ever planned."""
    return {name: plan for plan in plans(outputs) for name in plan["experiments"]}


def planned(outputs: Path, experiments: Sequence[str] | None = None) -> dict[str, dict[str, Any]]:
    """The newest plan of each experiment named, or of all that were ever planned here.

    Raises:
        UserError: nothing was planned here, or no experiment of that name.
    """
    known = newest(outputs)
    if not known:
        remedy = "start with a sweep: -m experiment=fig1"
        raise wrong("outputs", outputs, "a folder with a plan", remedy)
    for name in experiments or ():
        if name not in known:
            expected = f"one that was planned ({', '.join(shown(one, 80) for one in known)})"
            remedy = "correct the name, or plan it with a sweep: -m experiment=..."
            raise wrong("experiment", name, expected, remedy)
    return {name: known[name] for name in experiments or known}


def _paths(outputs: Path) -> list[Path]:
    found: Iterator[Path] = (outputs / "plans").glob("*.json")
    return sorted(
        (path for path in found if _NUMBERED.fullmatch(path.name)), key=lambda path: int(path.stem)
    )


def _content(plan: Mapping[str, Any]) -> str:
    return canonical({key: plan[key] for key in plan if key not in _PASSING})
