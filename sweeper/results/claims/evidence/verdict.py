"""What the data say of a claim, as data and in words."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sweeper.store.numbers import clock

_ROUNDING = 1e-9  # of floats: a difference below it is none
_SHOWN = 6  # contrasts in a sentence
_END = re.compile(r"(?:;|\.) ")  # of what is said first


class Answer(StrEnum):
    """Which way a claim fell."""

    SUPPORTED = "supported"
    NOT_SUPPORTED = "not supported"
    NO_DIFFERENCE = "no difference beyond the margin"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Verdict:
    """What the data say of a claim.

    Attributes:
        claim: its name.
        verdict: which way it fell.
        sentence: the answer in words, with its numbers and intervals.
        numbers: the same as plain data; `contrasts`, the place of the one told `first`, where it is
            undecided `price`, and where points have no run to judge by how many these are, as
            `unmeasured`.
        measure: by what it was judged, in words.
    """

    claim: str
    verdict: Answer
    sentence: str
    numbers: dict[str, Any]
    measure: str = ""

    @property
    def answer(self) -> str:
        """The verdict in words, which tell what was never measured from what is undecided."""
        return "not measured yet" if "unmeasured" in self.numbers else str(self.verdict)

    @property
    def brief(self) -> str:
        """On one line what would decide it, or what it rests on once it is decided."""
        price, contrasts = self.numbers.get("price"), self.numbers.get("contrasts", ())
        known = any(contrast["low"] is not None for contrast in contrasts)
        if price is None or "unmeasured" in self.numbers or not (known or price["seeds"]):
            return _END.split(self.sentence)[0].rstrip(".")
        if price["seeds"] is None:
            return "no number of seeds in sight"
        took = f", {clock(3600 * price['hours'])}" if price["hours"] is not None else ""
        return f"{price['seeds']} seeds a point: {price['runs']} runs{took}"


@dataclass(frozen=True)
class Found:
    """A contrast as it was found: in the metric's unit as shown, or as a ratio's logarithm.

    Attributes:
        words: what was compared.
        value, low, high: the estimate and the interval; infinite ends where nothing is known.
        ratio: whether they are natural logarithms of ratios.
        closing: the ends after three seeds a point, four, ...
    """

    words: str
    value: float
    low: float
    high: float
    ratio: bool
    closing: Sequence[tuple[float, float]] = ()

    def __str__(self) -> str:
        known = [end for end in (self.value, self.low, self.high) if math.isfinite(end)]
        if max(map(abs, known)) < _ROUNDING:
            return f"{self.words} no different{'' if len(known) == 3 else ' [no interval]'}"
        if self.value < 0:
            turned = Found(self.words, -self.value, -self.high, -self.low, self.ratio)
            return f"{self.words} worse by {turned.size()}"
        return f"{self.words} better by {self.size()}"

    def size(self) -> str:
        """The value and its interval: `1.31 [0.92, 1.70]`, `1.3 % [0.9, 1.7]`, `a factor of 7`."""
        value = self.value if abs(self.value) >= _ROUNDING else 0.0
        ends = (value, self.low, self.high)
        known = math.isfinite(self.low) and math.isfinite(self.high)
        if not self.ratio:
            return _numbers(ends, "") if known else f"{value:.3g} [no interval]"
        if max(abs(end) for end in ends if math.isfinite(end)) > 0.5:  # by half or more
            low, high = (_factor(end) for end in (self.low, self.high))
            interval = f"[{low}, {high}]" if known else "[no interval]"
            return f"a factor of {_factor(self.value)} {interval}"
        percent = tuple(100 * math.expm1(end) for end in ends if math.isfinite(end))
        return _numbers(percent, " %") if known else f"{percent[0]:.3g} % [no interval]"

    def as_data(self) -> dict[str, Any]:
        """The same as plain data; None for an end that is not known."""
        return {
            "words": self.words,
            "value": self.value,
            "low": _end(self.low),
            "high": _end(self.high),
            "unit": "log ratio" if self.ratio else "metric",
            "closing": [[_end(low), _end(high)] for low, high in self.closing],
        }


def listed(contrasts: Sequence[str], notes: Sequence[str]) -> str:
    """Contrasts in words, the first few of many, and what else is to be said of them."""
    more = len(contrasts) - _SHOWN
    listed = "; ".join(
        [*contrasts[:_SHOWN], *([f"and {more} more"] if more > 0 else []), *notes[:_SHOWN]]
    )
    return f"{listed[0].upper()}{listed[1:]}."


def priced(cost: dict[str, Any], margin: bool) -> str:
    """What an answer is expected to cost, in words; `margin` is whether the experiment has one."""
    if cost["seeds"] is None:
        words = "No number of seeds is in sight that would decide it at the difference so far"
        return f"{words}." if margin else f"{words}; a margin in the experiment would end it."
    hours = f", {cost['hours']:.2g} device hours" if cost["hours"] is not None else ""
    return (
        f"To decide it takes about {cost['seeds']} seeds a point at the spread and difference so "
        f"far: {cost['runs']} more runs{hours}."
    )


def _factor(log: float) -> str:
    return f"{math.exp(max(min(log, 700.0), -700.0)):.3g}"


def _numbers(ends: Sequence[float], unit: str) -> str:
    value, low, high = ends
    reach = (high - low) / 2
    digits = min(max(1 - math.floor(math.log10(reach)), 0), 6) if reach > 0 else 3
    return f"{value:.{digits}f}{unit} [{low:.{digits}f}, {high:.{digits}f}]"


def _end(value: float) -> float | None:
    return value if math.isfinite(value) else None
