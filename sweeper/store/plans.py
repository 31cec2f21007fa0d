"""What a plan is on disk: a numbered file, written once, the newest last."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sweeper.store.files import FORMAT, canonical, make_directory, publish_json, read_versioned

_NUMBERED = re.compile(r"\d{4,9}\.json")


def write_plan(outputs: Path, plan: Mapping[str, Any]) -> Path:
    """Writes a plan under the next number; the newest plan's path where that says the same."""
    paths = _paths(outputs)
    if paths and _content(read_versioned(paths[-1]) or {}) == _content(plan):
        return paths[-1]
    folder = outputs / "plans"
    make_directory(folder)
    for number in itertools.count(int(paths[-1].stem) + 1 if paths else 1):
        path = folder / f"{number:04d}.json"
        value = {**plan, "format": FORMAT, "number": number}
        if publish_json(path, value, replace=False):
            break
    return path


def plans(outputs: Path) -> list[dict[str, Any]]:
    """All plans, oldest first."""
    return [plan for path in _paths(outputs) if (plan := read_versioned(path))]


def latest(outputs: Path, experiment: str) -> dict[str, Any] | None:
    """The newest plan that has this experiment; None if there is none."""
    for path in reversed(_paths(outputs)):
        plan = read_versioned(path, keys=("experiments",))
        if plan is not None and experiment in plan["experiments"]:
            return plan
    return None


def _paths(outputs: Path) -> list[Path]:
    found: Iterator[Path] = (outputs / "plans").glob("*.json")
    return sorted(
        (path for path in found if _NUMBERED.fullmatch(path.name)), key=lambda path: int(path.stem)
    )


def _content(plan: Mapping[str, Any]) -> str:
    return canonical({key: plan[key] for key in plan if key not in ("format", "number")})
