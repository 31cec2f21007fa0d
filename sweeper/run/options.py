"""The options of a sweep, and the base class of the options of backends.

These dataclasses are the schema of `hydra.sweeper` and `hydra.launcher`. Hydra checks keys and
types. `__post_init__` checks the ranges of the values. The yaml files in conf/hydra/ repeat the
defaults and explain each option.
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
# The least value of `hang_after_s`. A shorter one could expire because a single heartbeat is late.
LEAST_S = 3 * HEARTBEAT_SECONDS
# After a failure with one of these causes, another start may succeed. Runs are deterministic, so
# any other failure would repeat.
TRANSIENT = (Cause.INTERRUPTED, Cause.KILLED, Cause.HANG, Cause.DISK_FULL)


class Limit(NamedTuple):
    """A condition on the value of an option. The option's type is `Annotated[int, limit]`.

    Attributes:
        fits: a function that returns whether a value meets the condition.
        expected: the description of the condition in messages.
    """

    fits: Callable[[Any], object]
    expected: str


def at_least(least: float, at_most: float = math.inf) -> Limit:
    """Return the condition that a number is at least `least` and at most `at_most`."""
    upper = "" if at_most == math.inf else f" and at most {at_most:g}"
    return Limit(
        lambda value: least <= value <= at_most,
        f"a number of at least {least:g}{upper}",
    )


PositiveInt = Annotated[int, at_least(1)]
Word = Annotated[
    str | None, Limit(re.compile(r"[!-~]+").fullmatch, "a word without blanks")
]
"""A single word, or None. Such a value cannot add an argument to a command."""
Lines = Annotated[
    list[str],
    Limit(lambda lines: all(map(str.isprintable, lines)), "a list of printable lines"),
]


@dataclass
class LimitedOptions:
    """The base class of the options of a sweep or a backend. It checks the ranges of values."""

    # The section of the config that holds these options.
    section: ClassVar[str] = "hydra.launcher"

    def __post_init__(self) -> None:
        """Raise UserError if a value violates its limit. Hydra has already checked null values."""
        for name, hint in get_type_hints(type(self), include_extras=True).items():
            for limit in getattr(hint, "__metadata__", ()):
                value = getattr(self, name)
                if value is not None and not limit.fits(value):
                    key = f"{self.section}.{name}"
                    raise invalid_value(key, value, limit.expected, "correct the value")


Retrain = StrEnum("Retrain", ["changed"])
"""The values of `retrain`. `changed`: train finished runs again if their code has changed."""


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
    tries: PositiveInt = 3
    wait_s: Annotated[float, at_least(0)] = 5
    equal_failures: Annotated[int, at_least(0)] = 3

    def again(self, status: Status, tries: int) -> bool:
        """Return whether a run that failed may start again.

        A full disk always allows another start, because the run did not cause the failure.

        Args:
            status: the status of the failed run.
            tries: how many times the run was started since it last reached a new highest step.
        """
        if status.cause not in TRANSIENT:
            return False
        return status.cause is Cause.DISK_FULL or tries < self.tries

    def wait(self, tries: int) -> float:
        """Return the seconds to wait before the next start. The wait doubles with each try."""
        return float(min(LONGEST_WAIT_S, self.wait_s * 2 ** (min(tries, 32) - 1)))
