"""The verdict on a claim, as data and as text."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal, NamedTuple, TypeAlias

from sweeper.store.numbers import clock, plural

_ROUNDING = 1e-9  # a smaller difference counts as 0
_SHOWN = 6  # a sentence names at most this many contrasts
_END = re.compile(r"(?:;|\.) ")  # the end of a statement within `Verdict.sentence`


Unit: TypeAlias = Literal["log ratio", "points", "metric"]


class Decision(StrEnum):
    """The possible decisions on a claim."""

    SUPPORTED = "supported"
    NOT_SUPPORTED = "not supported"
    NO_DIFFERENCE = "no difference beyond the margin"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Verdict:
    """A decision on a claim, with its reasons.

    Attributes:
        claim: the name of the claim.
        verdict: the decision.
        sentence: the explanation of the decision, with numbers and intervals.
        numbers: the content of `sentence` as plain data. It is {} if the experiment lacks points
            that the claim needs. The keys are:

            - contrasts: the result of each contrast (`Found.as_data`).
            - first: the index in `contrasts` of the result that `sentence` names first.
            - error, claims, confidence, margin, asked_after, pooled: see `Terms`.
            - price: the expected cost of a decision. Missing if it is unknown.
            - unmeasured: the number of points that have no finished or failed run. Missing if it
              is 0.
        measure: the metric that judged the claim, in words.
    """

    claim: str
    verdict: Decision
    sentence: str
    numbers: dict[str, Any]
    measure: str = ""

    @property
    def label(self) -> str:
        """The decision, or "not measured yet" if a point has no finished or failed run."""
        return "not measured yet" if "unmeasured" in self.numbers else str(self.verdict)

    @property
    def effect(self) -> str:
        """The result that the sentence names first, with its interval; "" if there is none."""
        contrasts = self.numbers.get("contrasts")
        if not contrasts or "unmeasured" in self.numbers:
            return ""
        one = contrasts[self.numbers.get("first", 0)]
        low = -math.inf if one["low"] is None else one["low"]
        high = math.inf if one["high"] is None else one["high"]
        costs = (one.get("costs", {}), one.get("speedup", {}))
        return str(Found(one["words"], one["value"], low, high, one["unit"], *costs))

    @property
    def brief(self) -> str:
        """The expected cost of a decision, or the start of `sentence` if the cost is unknown."""
        price = self.numbers.get("price")
        if price is None or "unmeasured" in self.numbers:
            return _END.split(self.sentence)[0].rstrip(".")
        if price["seeds"] is None:
            return f"more than {MOST_SEEDS:,} seeds per point"
        took = f", {clock(3600 * price['hours'])}" if price["hours"] is not None else ""
        runs = plural(price["runs"], "run")
        return f"{price['seeds']} seeds per point: {runs}{took}"


@dataclass(frozen=True)
class JudgedMargin:
    """The margin of a metric: the largest difference that does not matter.

    Attributes:
        size: the difference, on the judged scale. For a margin of 1 %, it is log(1.01).
        words: the difference as text, such as "1 %".
        reason: a sentence that says why the difference does not matter.
        ratio: whether the margin is in per cent. Then claims judge ratios instead of differences.
    """

    size: float
    words: str
    reason: str
    ratio: bool


MOST_SEEDS = 1000  # the largest number of seeds per point for which a price is computed


class Price(NamedTuple):
    """The expected cost of a decision.

    Attributes:
        seeds: the number of seeds per point, including those done. None if it is larger than
            MOST_SEEDS.
        runs: the number of runs to add; None if `seeds` is None.
        hours: the device hours of these runs; None if unknown.
    """

    seeds: int | None
    runs: int | None
    hours: float | None


@dataclass(frozen=True)
class Terms:
    """The conditions under which a verdict holds.

    Attributes:
        error: the probability that any of the claims that share it gets a wrong verdict.
        claims: the number of claims that share `error`.
        margin: the largest difference that does not matter; None if the experiment has none.
        asked_after: how many runs were done before a term was chosen, by term. The terms are
            "claim", "margin" and "error". A term that was chosen before all runs is left out.
        pooled: (number of values, number of points) from which the variance is predicted.
    """

    error: float
    claims: int
    margin: JudgedMargin | None
    asked_after: Mapping[str, int]
    pooled: tuple[int, int]

    def __str__(self) -> str:
        confidence = f"{100 * (1 - self.error / self.claims):.4g} % confidence"
        shared = (
            f", since {self.claims} claims share an error of {100 * self.error:g} %"
        )
        margin = f"a margin of {self.margin.words}" if self.margin else "no margin"
        values, points = self.pooled
        words = [
            f"Judged at {confidence}{shared if self.claims > 1 else ''}, with {margin} and a "
            f"spread pooled over {values} values of {plural(points, 'point')}."
        ]
        for what, runs in self.asked_after.items():
            ended = f"{plural(runs, 'run')} had ended"
            words.append(f"The {what} was first asked after {ended}.")
        return " ".join(words)

    def as_data(self) -> dict[str, Any]:
        """Return the terms as plain data."""
        margin = self.margin and {
            "size": self.margin.words,
            "reason": self.margin.reason,
        }
        return {
            "error": self.error,
            "claims": self.claims,
            "confidence": 1 - self.error / self.claims,
            "margin": margin,
            "asked_after": dict(self.asked_after),
            "pooled": dict(zip(("values", "points"), self.pooled, strict=True)),
        }


@dataclass(frozen=True)
class Found:
    """The result for a contrast, which compares a first side with a second one.

    Attributes:
        words: the comparison, for example "2 heads over 16 heads".
        value: the estimated difference. If it is above 0, the first side is better.
        low, high: the ends of the interval of `value`. An unknown end is infinite.
        unit: the unit of these three numbers. "log ratio" is the natural logarithm of a ratio,
            "points" are percentage points, and "metric" is the unit of the metric.
        costs: the cost of the first side divided by that of the second, by name of the cost. The
            ratio of seconds is None if the times cannot be compared.
        speedup: the log of the first side's effective speedup and the ends of its interval, by name
            of the cost (results/speedup.py).
    """

    words: str
    value: float
    low: float
    high: float
    unit: Unit = "metric"
    costs: Mapping[str, float | None] = field(default_factory=dict)
    speedup: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.words} {self._effect()}{self._cost()}{self._sooner()}"

    def _effect(self) -> str:
        known = [end for end in (self.value, self.low, self.high) if math.isfinite(end)]
        if max(map(abs, known)) < _ROUNDING:
            return f"no different{'' if len(known) == 3 else ' [no interval]'}"
        if self.value < 0:
            turned = replace(self, value=-self.value, low=-self.high, high=-self.low)
            return f"worse by {turned.size()}"
        return f"better by {self.size()}"

    def _cost(self) -> str:
        known = [f"{r:.2f} x the {cost}" for cost, r in self.costs.items() if r]
        apart = ", times not comparable" if None in self.costs.values() else ""
        return f" at {' and '.join(known)}{apart}" if known else apart

    def _sooner(self) -> str:
        """Return the effective speedup, or slowdown, as text."""
        factors = []
        for cost, (value, low, high) in self.speedup.items():
            ends = (-value, -high, -low) if self.value < 0 else (value, low, high)
            middle, least, most = map(_factor, ends)
            factors.append(f"{middle} [{least}, {most}] in {cost}")
        kind = "slowdown" if self.value < 0 else "speedup"
        return f", an effective {kind} of {' and '.join(factors)}" if factors else ""

    def size(self) -> str:
        """Return the value and its interval, such as `1.31 [0.92, 1.70]` or `1.3 % [0.9, 1.7]`."""
        value = self.value if abs(self.value) >= _ROUNDING else 0.0
        ends = (value, self.low, self.high)
        known = math.isfinite(self.low) and math.isfinite(self.high)
        if self.unit != "log ratio":
            unit = " points" if self.unit == "points" else ""
            return _numbers(ends, unit) if known else f"{value:.3g}{unit} [no interval]"
        # Large ratios are easier to read as factors than as per cent.
        if max(abs(end) for end in ends if math.isfinite(end)) > 0.5:
            low, high = (_factor(end) for end in (self.low, self.high))
            interval = f"[{low}, {high}]" if known else "[no interval]"
            return f"a factor of {_factor(self.value)} {interval}"
        percent = tuple(100 * math.expm1(end) for end in ends if math.isfinite(end))
        return _numbers(percent, " %") if known else f"{percent[0]:.3g} % [no interval]"

    def as_data(self) -> dict[str, Any]:
        """Return the result as plain data. An unknown end of the interval is None."""
        ends = {"low": self.low, "high": self.high}
        known = {key: end if math.isfinite(end) else None for key, end in ends.items()}
        return asdict(self) | known


def explain(
    decision: Decision,
    found: Sequence[Found],
    terms: Terms,
    obstacle: str | None,
    price: Price | None,
) -> str:
    """Return the text that explains a decision. It quotes at most the first _SHOWN results.

    `obstacle` is the sentence that says why the claim is undecided. It comes first.
    """
    named = [str(one) for one in found[:_SHOWN]]
    if len(found) > _SHOWN:
        named.append(f"and {len(found) - _SHOWN} more")
    contrasts = "; ".join(named)
    sentences = [obstacle] if obstacle else []
    sentences.append(f"{contrasts[0].upper()}{contrasts[1:]}.")
    if decision is Decision.NO_DIFFERENCE and terms.margin:
        sentences.append(f"All within {terms.margin.words}: {terms.margin.reason}")
    if price and price.seeds is None:
        remedy = "" if terms.margin else " A margin in the experiment could decide it."
        words = "If the difference stays as it is, a decision needs"
        sentences.append(f"{words} more than {MOST_SEEDS:,} seeds per point.{remedy}")
    elif price:
        hours = f", {price.hours:.2g} device hours" if price.hours is not None else ""
        sentences.append(
            "If the difference and its spread stay as they are, a decision needs about "
            f"{price.seeds} seeds per point in total: {plural(price.runs or 0, 'more run')}{hours}."
        )
    return " ".join([*sentences, str(terms)])


def _factor(log: float) -> str:
    three_digits = float(f"{math.exp(max(min(log, 700.0), -700.0)):.3g}")
    return f"{three_digits:,.6g}"  # below a million, .6g writes no exponent


def _numbers(ends: Sequence[float], unit: str) -> str:
    value, low, high = ends
    reach = (high - low) / 2
    digits = min(max(1 - math.floor(math.log10(reach)), 0), 6) if reach > 0 else 3

    def first(one: float) -> int:
        """Return how many decimals are needed to show a digit other than 0."""
        return min(max(-math.floor(math.log10(abs(one))), digits), 6) if one else digits

    # If an end rounds to zero, show more decimals: the decision depends on its sign.
    shown = (
        f"{end:.{digits if round(end, digits) else first(end)}f}" for end in (low, high)
    )
    return f"{value:.{first(value)}f}{unit} [{', '.join(shown)}]"
