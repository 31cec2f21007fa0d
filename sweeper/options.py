"""The options of a sweep, `hydra.sweeper` (conf/hydra/sweeper/headroom.yaml)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from sweeper.run.backend import at_least
from sweeper.run.failures import LEAST_S, Policy, Watchdog


@dataclass
class SweepOptions(Policy):
    """The limits of a plan, the decisions, and the reactions to runs that fail or hang."""

    dry_run: bool
    decide: bool
    pilot: Annotated[int | None, at_least(2)]
    max_seeds: Annotated[int, at_least(3)]
    budget_device_hours: Annotated[float | None, at_least(0)]
    until: list[str]
    max_runs: Annotated[int, at_least(1)]
    hang_after_s: Annotated[float | None, at_least(LEAST_S)]
    hang_grace_s: Annotated[float, at_least(1)]

    def watchdog(self) -> Watchdog | None:
        """Return the watchdog over running jobs; None if `hang_after_s` is null."""
        return Watchdog(self.hang_after_s, self.hang_grace_s) if self.hang_after_s else None
