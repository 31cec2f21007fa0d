"""The decision on a claim by one measure, and the seeds that it is expected to take."""

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sweeper.results.design import (
    NOTHING,
    Contrast,
    Statement,
    Unanswerable,
    Weights,
    asked,
    placed,
)
from sweeper.results.evidence import Evidence
from sweeper.results.statistics import sequential
from sweeper.results.statistics.bimodal import is_bimodal
from sweeper.results.statistics.blocks import Estimate, estimates, intervals
from sweeper.results.statistics.sequential import (
    FIRST,
    AnyOf,
    Combination,
    Each,
    Floats,
    Intervals,
)
from sweeper.results.verdict import Decision, Found, Price, Terms, Verdict, explain
from sweeper.store.plans import ERROR

MOST = 1000  # seeds a point; a decision that takes more is not in sight
_STEPS = 20  # within the range of a metric, at least: no evaluation has fewer rows
_BIMODAL_FROM = 10  # seeds a point; fewer look bimodal by chance
_BIMODAL = (
    "Seeds are bimodal: some runs learned and some did not, so the mean says little."
)
_DEPENDS = (
    "It depends on the learning rate, of two that trials cannot tell apart; more seeds of trials "
    "(experiment.tune.seeds) could."
)


class Ranked(NamedTuple):
    """The findings of a statement.

    `All` is decided by its weakest contrast, `AnyOf` by its strongest, where an interval above or
    below the threshold goes before any estimate. Alternatives are listed best first.
    """

    favour: float
    holds: bool
    fails: bool
    deciding: Found
    listed: list[Found]


@dataclass(frozen=True)
class Question:
    """A claim by one measure.

    Attributes:
        name: of the claim.
        measure: the measure that judges it, in words.
        statement: the contrasts of the claim, combined.
        evidence: the points and their values.
        claims: the number of questions that share the chance of error.
        error: that chance, of any wrong decision among them.
        asked_after: for each term (the claim, its margin or the error) that was first asked after
            runs were done, these runs.
    """

    name: str
    measure: str
    statement: Statement
    evidence: Evidence
    claims: int = 1
    error: float = ERROR
    asked_after: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise Unanswerable if a contrast, of those that are no alternatives, compares nothing."""
        for contrast, *_ in asked(self.statement):
            if not self._rows([contrast.weights]).any():
                raise Unanswerable(
                    f"Both sides of it are the same runs: {contrast.words}."
                )

    @cached_property
    def contrasts(self) -> list[Contrast]:
        """The contrasts of the statement, from left to right, alternatives included."""
        return [contrast for same in asked(self.statement) for contrast in same]

    @cached_property
    def weights(self) -> Floats:
        """The weights of the contrasts, (contrasts, distinct points)."""
        return self._rows([contrast.weights for contrast in self.contrasts])

    @cached_property
    def used(self) -> list[int]:
        """The places of the distinct points that the claim rests on."""
        return np.flatnonzero((self.weights != 0).any(axis=0)).tolist()

    @cached_property
    def fewest(self) -> int:
        """The smallest number of measurements of these points."""
        return min(len(self.evidence.measured[place].values) for place in self.used)

    @cached_property
    def combination(self) -> Combination:
        """The statement with places for contrasts."""
        return placed(self.statement, iter(range(len(self.contrasts))).__next__)

    @cached_property
    def levels(self) -> Floats:
        """The levels of the ends of the contrasts' intervals."""
        return sequential.levels(
            self.combination, len(self.contrasts), self.claims, self.error
        )

    @cached_property
    def margins(self) -> Floats:
        """The margin of each contrast, nan without one."""
        margin = self.evidence.margin
        return np.full(len(self.contrasts), margin.size if margin else np.nan)

    @cached_property
    def estimates(self) -> list[Estimate]:
        """The newest estimate of each contrast."""
        return estimates(self.evidence.values, self.weights)

    @cached_property
    def analyses(self) -> list[Intervals]:
        """The intervals of the contrasts' excess over their thresholds, by interim analysis."""
        return [
            self._excess(estimates(one, self.weights)) for one in self.evidence.analyses
        ]

    @cached_property
    def intersection(self) -> Intervals:
        """The intersection of all analyses, which is empty where they lie apart."""
        found = self.analyses[0]
        for newer in self.analyses[1:]:
            found = newer.within(found)
        return found

    @cached_property
    def found(self) -> list[Found]:
        """The evidence on each contrast, on its own scale; the ends hold for its alternatives."""
        newest, joint = self.analyses[-1], self.intersection
        apart = joint.lows > joint.highs
        lows = np.where(apart, newest.lows, joint.lows)
        highs = np.where(apart, newest.highs, joint.highs)
        shown = Intervals(newest.values, lows, highs)
        places, found = iter(range(len(self.contrasts))), []
        for same in asked(self.statement):
            own = [next(places) for _ in same]
            first, ratios = same[0], self.evidence.ratios
            value = float(newest.values[own[0]]) + first.above
            low, high = self._ends(shown, own)
            closing = [self._ends(one, own) for one in self.analyses]
            points = self.evidence.in_points
            found.append(Found(first.words, value, low, high, ratios, closing, points))
        return found

    def _ends(self, found: Intervals, places: list[int]) -> tuple[float, float]:
        """Return the ends over all alternatives, as far as values of the metric can differ.

        They are infinite if no difference lies outside of them.
        """
        above = self.contrasts[places[0]].above
        farthest = self.evidence.range * float(
            self.weights[places[0]].clip(min=0).sum()
        )
        low = float(found.lows[places].min()) + above
        high = float(found.highs[places].max()) + above
        everything = low <= -farthest and high >= farthest
        if everything:
            return -math.inf, math.inf
        return max(low, -farthest), min(high, farthest)

    @cached_property
    def ranked(self) -> Ranked:
        """The findings as the statement combines them."""
        contrasts = (contrast for contrast, *_ in asked(self.statement))
        return _ranked(self.statement, zip(contrasts, self.found, strict=True))

    @cached_property
    def hopeless(self) -> str | None:
        """The reason why no further seed can decide the claim, or None."""
        own = [self.evidence.measured[place] for place in self.used]
        lost, zero = sum(one.lost for one in own), sum(one.zero for one in own)
        if any(one.alone for one in own):
            return (
                "Every seed starts from the same pre-training, so this is about these weights only;"
                " more fine-tunings say nothing of another pre-training."
            )
        if lost:
            return f"{lost} of its runs failed or diverged, without a value that can be judged."
        if zero:
            have = "run has a value" if zero == 1 else "runs have values"
            return f"{zero} {have} of 0 or less, where differences in per cent say nothing."
        for place in np.flatnonzero(self.intersection.lows > self.intersection.highs):
            words = self.contrasts[place].words
            return (
                "The intervals of different analyses lie apart, so one of them is "
                f"wrong: {words}."
            )
        if self.fewest >= FIRST and not any(one.error for one in self.estimates):
            return (
                "Points differ by the same for every seed, so nothing tells a difference from "
                "chance."
            )
        return None

    @cached_property
    def obstacle(self) -> str | None:
        """The reason why the claim stays undecided whatever its intervals are, or None."""
        groups = [
            [*self.evidence.measured[place].values.values()] for place in self.used
        ]
        if self.hopeless:
            return self.hopeless
        if is_bimodal(groups, self.evidence.range / _STEPS):
            return _BIMODAL
        if self.fewest < FIRST:
            return f"It takes {FIRST} seeds of every point at least; one has {self.fewest}."
        return None

    @cached_property
    def decision(self) -> Decision:
        """The decision that the evidence allows."""
        return Decision.UNDECIDED if self.obstacle else self._decision(self.combination)

    @cached_property
    def depends(self) -> bool:
        """True if it is undecided only because of the values that tuning left open."""
        chosen = self._decision(sequential.at_first(self.combination))
        return self.decision is not chosen and not self.obstacle

    @cached_property
    def terms(self) -> Terms:
        """The terms on which it is judged."""
        own = {
            run for place in self.used for _, run in self.evidence.measured[place].runs
        }
        after = {
            what: len(own.intersection(runs)) for what, runs in self.asked_after.items()
        }
        late = {what: runs for what, runs in after.items() if runs}
        return Terms(self.error, self.claims, self.evidence.margin, late)

    def verdict(self) -> Verdict:
        """Return the decision with its numbers and its explanation."""
        listed = self.ranked.listed
        if (
            self.decision is Decision.NOT_SUPPORTED
        ):  # the contrast that contradicts it comes first
            listed = sorted(listed, key=lambda one: one is not self.ranked.deciding)
        price = self.price()
        numbers = {
            "contrasts": [one.as_data() for one in self.found],
            "first": self.found.index(listed[0]),
            **self.terms.as_data(),
            **({"price": price._asdict()} if price else {}),
        }
        obstacle = _DEPENDS if self.depends else self.obstacle
        text = explain(
            self.decision, listed, self.terms, obstacle=obstacle, price=price
        )
        return Verdict(self.name, self.decision, text, numbers, self.measure)

    def price(self) -> Price | None:
        """Return what a decision takes if estimates and spreads stay as they are.

        None if the claim needs no more, if no seeds can decide it, or if no spread is known.
        """
        few = self.fewest < FIRST
        waits = self.decision is Decision.UNDECIDED and (few or not self.obstacle)
        if (
            not waits
            or self.hopeless
            or any(math.isinf(one.error) for one in self.estimates)
        ):
            return None
        following = range(max(self.fewest + 1, FIRST), MOST + 1)
        place = bisect_left(
            following, True, key=lambda seeds: self._decided_with(seeds)
        )
        if place == len(following):
            return Price(None, None, None)
        own = [self.evidence.measured[place] for place in self.used]
        more = [max(following[place] - len(one.values), 0) for one in own]
        hours = np.array([one.hours for one in own])
        known = np.isfinite(hours)
        return Price(
            seeds=following[place],
            runs=sum(n * one.trainings for n, one in zip(more, own, strict=True)),
            hours=float(np.where(known, hours, hours[known].mean()) @ more)
            if known.any()
            else None,
        )

    def next_seeds(self, most: int) -> dict[int, int]:
        """Return how many seeds each point that it rests on gets next, by place.

        None if it needs no more, or if a point would have more than `most`.
        """
        following = max(self.fewest + 1, FIRST)
        bimodal = self.obstacle == _BIMODAL and following > _BIMODAL_FROM
        stops = self.decision is not Decision.UNDECIDED or self.hopeless or bimodal
        if stops or following > most:
            return {}
        own = {place: len(self.evidence.measured[place].values) for place in self.used}
        return {
            place: following - seeds
            for place, seeds in own.items()
            if seeds < following
        }

    def _decided_with(self, seeds: int) -> bool:
        """Return whether this many seeds a point decide it at the present estimates and spreads."""
        expected = [
            one._replace(
                error=one.error * one.seeds / seeds,
                df=one.df + seeds - one.seeds,
                seeds=seeds,
            )
            for one in self.estimates
        ]
        found = self._excess(expected)
        return any(sequential.decisions(self.combination, found, self.margins))

    def _excess(self, found: Sequence[Estimate]) -> Intervals:
        """Return the intervals of the contrasts' excess over their thresholds."""
        above = np.array([contrast.above for contrast in self.contrasts])
        return Intervals(*(ends - above for ends in intervals(found, self.levels)))

    def _decision(self, claim: Combination) -> Decision:
        decided = sequential.decisions(claim, self.intersection, self.margins)
        pairs = zip(
            decided, Decision, strict=False
        )  # both in one order, undecided last
        return next(
            (decision for holds, decision in pairs if holds), Decision.UNDECIDED
        )

    def _rows(self, sums: Sequence[Weights]) -> Floats:
        found = np.zeros((len(sums), len(self.evidence.measured)))
        for row, weights in zip(found, sums, strict=True):
            for weight, point in weights:
                row[self.evidence.place(point)] += weight
        # Both sides of a contrast may have a point.
        found[np.abs(found) < NOTHING] = 0.0
        return found


def _ranked(statement: Statement, found: Iterator[tuple[Contrast, Found]]) -> Ranked:
    if isinstance(statement, Contrast | Each):
        contrast, own = next(found)
        favour = -abs(own.value) if contrast.same else own.value - contrast.above
        holds = own.low > contrast.above and not contrast.same
        fails = own.high < contrast.above and not contrast.same
        return Ranked(favour, holds, fails, own, [own])
    parts = [_ranked(part, found) for part in statement.parts]
    if isinstance(statement, AnyOf):
        parts.sort(key=lambda part: (not part.holds, -part.favour))
        first = parts[0]._replace(fails=all(part.fails for part in parts))
    else:
        first = min(parts, key=lambda part: (not part.fails, part.favour))
        first = first._replace(holds=all(part.holds for part in parts))
    return first._replace(listed=[one for part in parts for one in part.listed])
