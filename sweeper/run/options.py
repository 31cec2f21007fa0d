"""Options from Hydra's own section: of the sweep, and what those of backends are made of.

They are dataclasses: Hydra checks keys and types, construction checks ranges. The yaml under
conf/hydra/ repeats the defaults that are here, with comments.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, ClassVar, NamedTuple, get_type_hints

from sweeper.store.attempts import Cause
from sweeper.store.errors import invalid_value
from sweeper.store.liveness import HEARTBEAT_SECONDS
from sweeper.store.runs import Status

LONGEST_WAIT_S = 600.0
LEAST_S = 3 * HEARTBEAT_SECONDS  # the heartbeat allows no closer watch over a run
# Another start may mend these. Runs are deterministic, so any other failure would repeat.
TRANSIENT = (Cause.INTERRUPTED, Cause.KILLED, Cause.HANG, Cause.DISK_FULL)


class Limit(NamedTuple):
    """A condition on the value of an option, used as `Annotated[int, limit]`, and its words."""

    fits: Callable[[Any], object]
    expected: str


def at_least(least: float, at_most: float = math.inf) -> Limit:
    """Return a lower limit of a number, and an upper one where there is one."""
    upper = "" if at_most == math.inf else f" and at most {at_most:g}"
    return Limit(
        lambda value: least <= value <= at_most,
        f"a number of at least {least:g}{upper}",
    )


WORD = Limit(re.compile(r"[!-~]+").fullmatch, "a word without blanks")
"""Text that cannot become two words or lines of a script."""
LINES = Limit(
    lambda lines: all(map(str.isprintable, lines)), "a list of printable lines"
)


@dataclass
class LimitedOptions:
    """The base of the options of a backend or of the sweep."""

    section: ClassVar[str] = "hydra.launcher"  # of the config, which sets them

    def __post_init__(self) -> None:
        """Raise UserError for a value that breaks its limit; null is checked by its type."""
        for name, hint in get_type_hints(type(self), include_extras=True).items():
            for limit in getattr(hint, "__metadata__", ()):
                value = getattr(self, name)
                if value is not None and not limit.fits(value):
                    key = f"{self.section}.{name}"
                    raise invalid_value(key, value, limit.expected, "correct the value")


Retrain = StrEnum("Retrain", ["changed"])
"""The finished runs to train again: those of other code."""


@dataclass
class SweepOptions(LimitedOptions):
    """The options of a sweep, `hydra.sweeper` (conf/hydra/sweeper/headroom.yaml)."""

    section: ClassVar[str] = "hydra.sweeper"
    dry_run: bool = False
    plan_only: bool = False
    decide: bool = False
    max_seeds: Annotated[int, at_least(3)] = 30
    budget_device_hours: Annotated[float | None, at_least(0)] = None
    until: list[str] = field(default_factory=list)
    max_runs: Annotated[int, at_least(1, at_most=1_000_000)] = 100_000
    retrain: Retrain | None = None
    accept_mixed_code: bool = False
    hang_after_s: Annotated[float | None, at_least(LEAST_S)] = 600
    hang_grace_s: Annotated[float, at_least(1)] = 30
    tries: Annotated[int, at_least(1)] = 3
    wait_s: Annotated[float, at_least(0)] = 5
    equal_failures: Annotated[int, at_least(0)] = 3

    def again(self, status: Status, tries: int) -> bool:
        """Return whether a run that ended with `status` starts again after `tries` starts.

        After a full disk it always does: the run is not at fault.
        """
        if status.cause not in TRANSIENT:
            return False
        return status.cause is Cause.DISK_FULL or tries < self.tries

    def wait(self, tries: int) -> float:
        """Return the seconds before the next start; they double with each failed start."""
        return float(min(LONGEST_WAIT_S, self.wait_s * 2 ** (min(tries, 32) - 1)))
