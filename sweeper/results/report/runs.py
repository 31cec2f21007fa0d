"""What the page shows of a run: settings, result, attempts, training curves, the end of its log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sweeper.results.table import Row, cell, label, number
from sweeper.store.attempts import Attempt, Cause
from sweeper.store.errors import UserError, sanitize
from sweeper.store.files import canonical, present
from sweeper.store.identity import leaves
from sweeper.store.runs import Run

CURVES = ("train/loss", "validation/loss")
LOG_LINES = 40

_SETTINGS_APART = ("logger.", "paths.")  # where a run goes, not what it is
_RESULT = ("steps", "tokens_seen", "seconds", "tokens_per_second", "device")
_POINTS, _LETTERS = 100_000, 2_000_000  # of all curves of one kind, of all logs


def described(run: Run, row: Row, runs: int) -> dict[str, Any]:
    """A run, one of so many, as plain data; what cannot be read is left out, as `problem` says.

    Up to 500 runs may bring 200 points of a curve and 4,000 letters of a log each.
    """
    points, letters = min(max(_POINTS // runs, 25), 200), min(max(_LETTERS // runs, 500), 4000)
    about: dict[str, Any] = {key: row.get(key) for key in ("task", "seed", "state", "reason")}
    about |= {"settings": {}, "sizes": {}, "metrics": {}, "result": {}, "attempts": []}
    try:
        about |= _record(run)
        attempts = run.attempts()
        about["attempts"] = [_attempt(one, about.get("finished")) for one in attempts]
        about["curves"] = curves(run.history(), points)
        about["log"] = log_end(attempts, letters)
    except (UserError, OSError) as problem:
        about["problem"] = str(problem)
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        about["problem"] = (
            f"a file of the run does not hold what it should: {sanitize(problem, 80)}"
        )
    return about


def shared_settings(runs: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Takes out of each run the settings that all runs have alike; returns them."""
    with_settings = [run["settings"] for run in runs if run["settings"]]
    if len(with_settings) < 2:
        return {}
    first, *others = with_settings
    alike = {
        key: value
        for key, value in first.items()
        if all(key in other and other[key] == value for other in others)
    }
    for settings in with_settings:
        for key in alike:
            del settings[key]
    return alike


def curves(rows: Sequence[Mapping[str, Any]], most: int) -> dict[str, list[list[Any]]]:
    """By name, the steps and the values of each curve, thinned to `most` points.

    A value that is no finite number is None.
    """
    found = {}
    for name in CURVES:
        points = _thinned([(row["step"], row[name]) for row in rows if name in row], most)
        if points:
            found[name] = [[step for step, _ in points], [number(value) for _, value in points]]
    return found


def log_end(attempts: Sequence[Attempt], letters: int) -> list[str]:
    """The last lines of the newest attempt that wrote any."""
    for attempt in reversed(attempts):
        lines = [line.rstrip() for line in attempt.log_end(letters).expandtabs(4).splitlines()]
        if lines:
            return lines[-LOG_LINES:]
    return []


def _record(run: Run) -> dict[str, Any]:
    if not present(run.path / "run.json"):
        return {}
    record, result = run.record(), run.result() or {}
    settings = {
        key: value if value is None or isinstance(value, str | int | float) else canonical(value)
        for key, value in leaves(record["config"])
        if not key.startswith(_SETTINGS_APART)
    }
    return {
        "parent": record["config"].get("parent"),
        "settings": settings,
        "sizes": record.get("size", {}),
        "metrics": {label(key): cell(key, n) for key, n in result.get("metrics", {}).items()},
        "result": {key: result[key] for key in _RESULT if key in result},
        "finished": result.get("attempt"),
    }


def _attempt(attempt: Attempt, finished: int | None) -> dict[str, Any]:
    info, last_word = attempt.info(), attempt.exit() or {}
    if attempt.number == finished:
        last_word = {"cause": Cause.DONE}
    told = {key: info.get(key) for key in ("started", "resumed_from", "code")}
    about = {"hardware": info.get("hardware", {}), "versions": info.get("versions", {})}
    return {"number": attempt.number, "cause": last_word.get("cause"), **told, **about}


def _thinned(points: Sequence[Any], most: int) -> list[Any]:
    """At most `most` of the points, evenly spread, the first and the last among them."""
    if len(points) <= most:
        return list(points)
    return [points[round(place * (len(points) - 1) / (most - 1))] for place in range(most)]
