"""Options as dataclasses: Hydra checks their keys and types, making one checks its range.

Comments and defaults are in the yaml of the same name under conf/hydra/.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, get_type_hints

from sweeper.store.errors import wrong


class Limit(NamedTuple):
    """What a value has to fit, in code and in words; a field has it as `Annotated[int, limit]`."""

    fits: Callable[[Any], object]
    expected: str


def at_least(least: float) -> Limit:
    """A lower limit of a number."""
    return Limit(lambda value: value >= least, f"a number of at least {least:g}")


WORD = Limit(re.compile(r"[!-~]+").fullmatch, "a word without blanks")
"""A word cannot become two words or lines of a script."""
LINES = Limit(lambda lines: all(map(str.isprintable, lines)), "a list of printable lines")


@dataclass
class LimitedOptions:
    """Base of the options of a backend or of the sweep."""

    section: ClassVar[str] = "hydra.launcher"
    """Where a person sets them."""

    def __post_init__(self) -> None:
        """Refuse a value out of its limits; whether it may be null, its type says.

        Raises:
            UserError: what was expected of it.
        """
        for name, hint in get_type_hints(type(self), include_extras=True).items():
            for limit in getattr(hint, "__metadata__", ()):
                value = getattr(self, name)
                if value is not None and not limit.fits(value):
                    key = f"{self.section}.{name}"
                    raise wrong(key, value, limit.expected, "correct the value")
