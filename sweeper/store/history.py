"""The rows of several attempts as the rows of one undisturbed run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sweeper.store.attempts import Attempt
from sweeper.store.metrics import read_metrics

if TYPE_CHECKING:
    from sweeper.store.runs import Run


def merged_rows(attempts: Sequence[Attempt]) -> list[dict[str, Any]]:
    """One row per step, in order, from attempts given oldest first.

    The last attempt counts from the step it resumed at: what earlier ones did beyond that is
    superseded. Steps up to there come from the earlier attempts, where a later one wins.
    """
    if not attempts:
        return []
    *earlier, last = attempts
    limit = int(last.info().get("resumed_from", 0))
    merged = _by_step(last)
    for attempt in reversed(earlier):
        for step, row in _by_step(attempt).items():
            if step <= limit:
                merged[step] = row | merged.get(step, {})
    return [merged[step] for step in sorted(merged)]


def lineage(run: Run, number: int) -> list[dict[str, Any]]:
    """What the attempts say that the work of one came of, oldest first, itself last.

    What an earlier version of the program left does not say which attempt it continues.
    """
    found: list[dict[str, Any]] = []
    while number:
        info = run.attempt(number).info()
        found.insert(0, info)
        before = info.get("continues", 0)
        number = before if 0 < before < number else 0
    return found


def _by_step(attempt: Attempt) -> dict[int, dict[str, Any]]:
    """The rows of one attempt; several rows of one step, as training and validation write, join."""
    joined: dict[int, dict[str, Any]] = {}
    for row in read_metrics(attempt.metrics_path)[0]:
        joined.setdefault(row["step"], {}).update(row)
    return joined
