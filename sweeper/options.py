"""The options of a sweep, `hydra.sweeper`; conf/hydra/sweeper/headroom.yaml comments on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from sweeper.run.backend import at_least
from sweeper.run.failures import Policy
from sweeper.run.watchdog import LEAST_S, Watchdog


@dataclass
class SweepOptions(Policy):
    """What a sweep may plan, what it does when runs fail or hang."""

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
        """What ends runs that hang, unless they are let hang."""
        return Watchdog(self.hang_after_s, self.hang_grace_s) if self.hang_after_s else None
