"""The decision on a claim by one metric, and the number of seeds that would decide it."""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from sweeper.results.design import (
    All,
    Contrast,
    Statement,
    Unanswerable,
    contrasts_of,
    decide,
    levels,
    ranked,
)
from sweeper.results.evidence import Evidence, Measured
from sweeper.results.speedup import speedups, why_no_speedup
from sweeper.results.statistics.bimodal import is_bimodal
from sweeper.results.statistics.blocks import (
    Estimate,
    estimates,
    intervals,
    regular,
)
from sweeper.results.statistics.sequential import (
    FIRST,
    Floats,
    Intervals,
    intersection,
)
from sweeper.results.verdict import (
    MOST_SEEDS,
    Decision,
    Found,
    Price,
    Terms,
    Verdict,
    explain,
)
from sweeper.store.numbers import plural
from sweeper.store.plans import ERROR

# An accuracy over n rows of data is a multiple of 1 / n. Models are evaluated on at least this many
# rows, so the smallest difference between two accuracies is at most 1 / 20 of the range.
# `is_bimodal` uses this bound.
_FEWEST_ROWS = 20
# A few seeds can look bimodal by chance, so a sweep trains at least this many per point before it
# stops because of bimodality.
_BIMODAL_FROM = 10
_BIMODAL = (
    "Seeds are bimodal: some runs learned and some did not, so the mean says little."
)
_DEPENDS = (
    "The decision depends on the learning rate, and trials cannot tell two rates apart; try them "
    "with more seeds (experiment.tune.seeds)."
)


@dataclass(frozen=True)
class Question:
    """A claim, judged by one metric.

    The arrays of weights, estimates and intervals have three rows for each contrast: one for
    `Contrast.weights` and two for `Contrast.extremes`.

    Attributes:
        name: the name of the claim.
        measure: the metric in words.
        statement: the combined contrasts of the claim.
        evidence: the points and their values.
        claims: the number of questions that share `error`.
        error: the probability that any of these questions is decided wrongly.
        asked_after: the ids of the runs that were done before a term was chosen, by term. The terms
            are "claim", "margin" and "error". A term that was chosen before all runs is left out.
    """

    name: str
    measure: str
    statement: Statement
    evidence: Evidence
    claims: int = 1
    error: float = ERROR
    asked_after: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise Unanswerable if the claim cannot be judged, which has two reasons.

        - Both sides of a contrast are the same runs.
        - The margin changes the judged scale (ratios or differences), but the claim has a threshold
          or the metric has a resolution. Thresholds and resolutions are numbers on the metric's
          own scale.
        """
        has_threshold = any(contrast.above for contrast in self.contrasts)
        bound_to_scale = has_threshold or self.evidence.resolution
        if bound_to_scale and self.evidence.margin and not self.evidence.own_scale:
            unit = "the unit of the metric" if self.evidence.ratios else "per cent"
            raise Unanswerable(
                f"The claim cannot judge {self.evidence.metric} with the margin "
                f"{self.evidence.margin.words}; write the margin in {unit}."
            )
        for contrast in self.contrasts:
            if not self.evidence.weights([contrast.weights]).any():
                raise Unanswerable(
                    f"Both sides of the comparison are the same runs: {contrast.words}; "
                    "compare points that differ."
                )

    @cached_property
    def contrasts(self) -> list[Contrast]:
        """The contrasts of the statement, from left to right."""
        return contrasts_of(self.statement)

    @cached_property
    def weights(self) -> Floats:
        """The weights of each contrast and its `extremes`, of shape (3 * contrasts, points).

        The points are `evidence.measured`.
        """
        rows = [
            weights
            for one in self.contrasts
            for weights in (one.weights, *(one.extremes or [one.weights] * 2))
        ]
        return self.evidence.weights(rows)

    @cached_property
    def used(self) -> list[int]:
        """The indices in `evidence.measured` of the distinct points that the claim uses."""
        return np.flatnonzero(self.weights.any(axis=0)).tolist()

    @property
    def points(self) -> list[Measured]:
        """The distinct points that the claim uses."""
        return [self.evidence.measured[place] for place in self.used]

    @cached_property
    def fewest(self) -> int:
        """The smallest number of measurements that any point of the claim has."""
        return min(len(point.values) for point in self.points)

    @cached_property
    def estimates(self) -> list[Estimate]:
        """The estimate for each row of `weights`, from the values of all seeds so far."""
        return estimates(self.evidence.values, self.weights)

    @cached_property
    def analyses(self) -> list[Intervals]:
        """For each interim analysis, the intervals of all rows of `weights`, minus thresholds."""
        return [
            self._excess(estimates(one, self.weights)) for one in self.evidence.analyses
        ]

    @cached_property
    def intersection(self) -> Intervals:
        """For each row of `weights`, the intersection of its intervals in all analyses.

        If an intersection is empty, its low end is above its high end.
        """
        return intersection(self.analyses)

    @cached_property
    def _apart(self) -> np.ndarray:
        """For each row of `weights`, whether the intersection of its intervals is empty."""
        return self.intersection.lows > self.intersection.highs

    @property
    def level(self) -> float:
        """The chance of a wrong decision in one direction, such as supporting a false claim."""
        return self.error / self.claims / 2

    @cached_property
    def _levels(self) -> Floats:
        return levels(self.statement, self.level, self.level).repeat(3, axis=0)

    @cached_property
    def _above(self) -> Floats:
        return np.array([contrast.above for contrast in self.contrasts])

    def _excess(self, found: Sequence[Estimate]) -> Intervals:
        above = self._above.repeat(3)
        return Intervals(*(ends - above for ends in intervals(found, self._levels)))

    def _with_alternatives(self, rows: Intervals) -> Intervals:
        """Merge the intervals of each contrast and of its two `extremes` into one.

        The merged interval reaches from the lowest low end to the highest high end.

        Args:
            rows: the intervals, in the order of the rows of `weights`.
        """
        lows = rows.lows.reshape(-1, 3).min(axis=1)
        highs = rows.highs.reshape(-1, 3).max(axis=1)
        return Intervals(rows.values[::3], lows, highs)

    @cached_property
    def _hull(self) -> Intervals:
        """The interval of each contrast, minus its threshold, found in two steps.

        1. Intersect the intervals of all interim analyses, for the contrast and for each of its two
           `extremes`. If any of these intersections is empty, use the intervals of the newest
           analysis instead, for all contrasts.
        2. Merge the three intervals of each contrast into one that covers them.
        """
        joint = self.analyses[-1] if self._apart.any() else self.intersection
        return self._with_alternatives(joint)

    def _decision(self, found: Intervals) -> Decision:
        margin = self.evidence.margin
        return decide(self.statement, found, margin.size if margin else math.nan)

    @cached_property
    def found(self) -> list[Found]:
        """The value, interval and costs of each contrast. Thresholds are not subtracted.

        Intervals are clipped to [-m, m], where m is the largest difference that the metric allows.
        If both ends are clipped, the interval says nothing, so both ends become infinite.
        """
        chosen = self.weights[::3]
        ends = np.transpose([one + self._above for one in self._hull]).tolist()
        found = []
        for contrast, weights, (value, low, high) in zip(
            self.contrasts, chosen, ends, strict=True
        ):
            farthest = self.evidence.range * float(weights.clip(min=0).sum())
            low, high = max(low, -farthest), min(high, farthest)
            if (low, high) == (-farthest, farthest):
                low, high = -math.inf, math.inf
            costs = self.evidence.costs(weights)
            comparable = [cost for cost, ratio in costs.items() if ratio]
            sooner = speedups(self.evidence, contrast, comparable, self.level)
            effect = (contrast.words, value, low, high, self.evidence.unit)
            found.append(Found(*effect, costs, sooner))
        return found

    @cached_property
    def hopeless(self) -> str | None:
        """The reason why more seeds cannot decide the claim, or None."""
        if self.evidence.mixed_code:
            return self.evidence.mixed_code
        lost = sum(point.lost for point in self.points)
        zero = sum(point.zero for point in self.points)
        if any(point.alone for point in self.points):
            return (
                "All seeds of a point start from one pre-training, so the result says nothing "
                "about other pre-trainings. To decide the claim, pre-train with more seeds."
            )
        if lost:
            return f"{plural(lost, 'run')} of the claim failed or diverged, so values are missing."
        if zero:
            return (
                "Differences in per cent are undefined for values of 0 or less, which "
                f"{plural(zero, 'run')} measured."
            )
        if self._apart.any():
            words = self.contrasts[self._apart.argmax() // 3].words
            return (
                "The intervals of different interim analyses do not overlap, so one of them "
                f"is wrong: {words}."
            )
        if self.fewest >= FIRST and not any(one.error for one in self.estimates):
            return (
                "The points differ by the same amount for every seed, so the spread between seeds "
                "cannot be estimated."
            )
        return None

    @cached_property
    def obstacle(self) -> str | None:
        """The reason why intervals cannot decide the claim yet, or None."""
        if self.hopeless:
            return self.hopeless
        seeds = [[*point.values.values()] for point in self.points]
        if is_bimodal(seeds, self.evidence.range / _FEWEST_ROWS):
            return _BIMODAL
        if self.fewest < FIRST:
            return f"Every point needs at least {FIRST} seeds; one has {self.fewest}."
        return None

    @cached_property
    def decision(self) -> Decision:
        """The decision that the evidence allows; undecided if there is an `obstacle`."""
        if self.obstacle:
            return Decision.UNDECIDED
        return self._decision(self._hull)

    @cached_property
    def terms(self) -> Terms:
        """The error probability, the margin and other conditions, which the verdict states."""
        own = {run for point in self.points for run in point.runs.values()}
        late = {
            term: count
            for term, runs in self.asked_after.items()
            if (count := len(own.intersection(runs)))
        }
        pooled = regular(self.evidence.values)
        over = (int((~np.isnan(pooled)).sum()), len(pooled))
        return Terms(self.error, self.claims, self.evidence.margin, late, over)

    def verdict(self) -> Verdict:
        """Return the decision with its numbers and its explanation."""
        _, deciding, places = ranked(self.statement, self._hull)
        if self.decision is Decision.NOT_SUPPORTED:
            # List first the contrast that contradicts the claim.
            places.sort(key=deciding.__ne__)
        listed = [self.found[place] for place in places]
        price = self.price()
        numbers = {
            "contrasts": [one.as_data() for one in self.found],
            "first": places[0],
            **self.terms.as_data(),
            **({"price": price._asdict()} if price else {}),
        }
        unmeasured = sum(point.unmeasured for point in self.points)
        if unmeasured:
            numbers["unmeasured"] = unmeasured
            measured = len(self.used) - unmeasured
            text = f"{measured} of the claim's {plural(len(self.used), 'point')} have results."
        else:
            chosen = Intervals(*(ends[::3] for ends in self.intersection))
            depends = self.decision is not self._decision(chosen)
            obstacle = self.obstacle or (_DEPENDS if depends else None)
            text = explain(self.decision, listed, self.terms, obstacle, price)
            statement = self.statement
            left_out = statement.left_out if isinstance(statement, All) else ""
            remarks = (left_out, why_no_speedup(self.evidence, self.contrasts))
            text = " ".join([text, *filter(None, remarks)])
        return Verdict(self.name, self.decision, text, numbers, self.measure)

    def price(self) -> Price | None:
        """Return the expected cost of a decision if estimates and spreads stay as they are.

        Return None if the claim is decided, if more seeds cannot decide it, if seeds are bimodal,
        or if a spread is unknown.
        """
        if self.decision is not Decision.UNDECIDED or self.hopeless:
            return None
        if self.obstacle and self.fewest >= FIRST:
            return None
        if any(math.isinf(one.error) for one in self.estimates):
            return None
        following = range(max(self.fewest + 1, FIRST), MOST_SEEDS + 1)
        place = bisect_left(following, True, key=self._decided_with)
        if place == len(following):
            return Price(None, None, None)
        seeds = following[place]
        more = [max(seeds - len(point.values), 0) for point in self.points]
        trainings = [point.trainings for point in self.points]
        hours = float(np.dot(more, [point.hours for point in self.points]))
        known = None if math.isnan(hours) else hours
        return Price(seeds, int(np.dot(more, trainings)), known)

    def next_seeds(self, most: int) -> dict[str, int]:
        """Return the total number of seeds that each point needs for the next interim analysis.

        The key of a point is the run id of its first seed. Points that have enough seeds are left
        out. Return {} if the claim is decided, if more seeds cannot decide it, or if a point would
        need more than `most` measurements.
        """
        following = max(self.fewest + 1, FIRST)
        bimodal = self.obstacle == _BIMODAL and following > _BIMODAL_FROM
        decided = self.decision is not Decision.UNDECIDED
        if decided or self.hopeless or bimodal or following > most:
            return {}
        return {
            point.first_run: len(point.runs) + following - len(point.values)
            for point in self.points
            if len(point.values) < following
        }

    def _decided_with(self, seeds: int) -> bool:
        """Return whether `seeds` per point would decide the claim if estimates stay as they are."""
        expected = [
            one._replace(
                error=one.error * one.seeds / seeds,
                df=one.df + seeds - one.seeds,
                seeds=seeds,
            )
            for one in self.estimates
        ]
        found = self._with_alternatives(self._excess(expected))
        return self._decision(found) is not Decision.UNDECIDED
