"""How long runs will train, judged by finished runs: those of like shape if there are any."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from statistics import median
from typing import Any

from sweeper.plan.plan import Run
from sweeper.store.identity import digest_of

LIKENESS: tuple[Callable[[Mapping[str, Any]], object], ...] = (
    # Model and batches: what makes a step of one run like that of another.
    lambda config: digest_of([config["task"], config["model"], config["trainer"]["precision"]]),
    lambda config: config["task"]["name"],
    lambda config: None,
)
"""Runs of one value are alike, by the first of these that any finished run shares."""


class Throughput:
    """FLOP/s of one slot, evaluation included; where nothing was measured, `assumed`."""

    def __init__(self, finished: Iterable[tuple[Run, float]], assumed: float) -> None:
        """Take runs and the seconds each of them trained."""
        self._assumed = assumed
        self._rates: list[dict[object, list[float]]] = [{} for _ in LIKENESS]
        for run, seconds in finished:
            if not run.flops:
                continue  # a run of no steps says nothing
            for rates, name in zip(self._rates, LIKENESS, strict=True):
                rates.setdefault(name(run.config), []).append(run.flops / seconds)
        self.measured = bool(self._rates[-1])
        """Whether any finished run says something."""

    def seconds(self, run: Run) -> float:
        """Return how long a run will train."""
        for rates, name in zip(self._rates, LIKENESS, strict=True):
            if alike := rates.get(name(run.config)):
                return run.flops / median(alike)
        return run.flops / self._assumed
