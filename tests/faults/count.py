"""What a case counts. Everything in LOST has to be 0 of N."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

LOST = ("unfinished", "wrong", "overwritten", "accepted", "hung", "complaints")


@dataclass
class Count:
    """The counters of one case."""

    case: str
    seed: int = 0
    injected: int = 0
    """Faults: kills, signals, flips, bytes cut."""
    runs: int = 0
    unfinished: int = 0
    """Runs without a result after recovery."""
    wrong: int = 0
    """Runs, or tables, that differ from the undisturbed ones in any byte that is not a time."""
    overwritten: int = 0
    """Results that changed after they were published."""
    accepted: int = 0
    """Damaged files that were used as if they were whole."""
    hung: int = 0
    """Waits that ran out of time."""
    complaints: int = 0
    """Times that a person would not have been told what happened, in the expected words."""
    second_finishers: int = 0
    """Attempts that trained to the end though another had: allowed, and counted."""
    steps: int = 0
    """Optimizer steps executed, as far as the metrics tell."""
    needed: int = 0
    seconds: float = 0.0

    @property
    def lost(self) -> int:
        """Everything that must not happen."""
        return sum(getattr(self, name) for name in LOST)

    def described(self) -> dict[str, Any]:
        """The line of JSON."""
        return {**asdict(self), "lost": self.lost, "seconds": round(self.seconds, 1)}
