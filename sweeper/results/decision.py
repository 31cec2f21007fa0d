"""The evidence on a claim, the decision that follows from it, and its expected cost.

A measurement is one training from scratch. Where runs start from others, that is the first of them:
several fine-tunings of one pre-training are averaged, because they share one random draw. Points
with the same runs count as one point, or their difference would count as an independent one.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from sweeper.results.design import (
    NOTHING,
    Contrast,
    Design,
    Statement,
    Unanswerable,
    Weights,
    asked,
    placed,
)
from sweeper.results.points import Point, metric_of, points
from sweeper.results.statistics import sequential, spreads
from sweeper.results.statistics.estimates import mean
from sweeper.results.statistics.expected_cost import MOST, Cost, Known, expected_cost
from sweeper.results.statistics.sequential import FIRST, AnyOf, Combination, Each, Floats, Intervals
from sweeper.results.table import LOGARITHMIC, PER_CENT, RESOLUTION, Table, direction, number
from sweeper.results.verdict import Decision, Found, JudgedMargin, Verdict, explain
from sweeper.store.errors import invalid_value
from sweeper.store.plans import ERROR


class Measurements:
    """The distinct points of an experiment by one measure.

    Attributes:
        points: every planned point but alternatives.
        every: the alternatives, too.
        ratios: whether values are logarithms.
        margin: the experiment's margin in this metric; None if it has none.
        groups: for each distinct point, its measurements by seed, larger being better. Several
            fine-tunings of one pre-training are one, at the first of their seeds.
        lost: the number of its seeds that have no value, because a run is done or failed.
        zero: the number of its seeds whose value is 0 or less, where ratios are judged.
        seconds: of training on a device for one measurement, mean of those that are done; if none
            is, the estimate of the plan, or nan.
        flops: the same in training FLOPs, which do not depend on the machine.
        trainings: the number of runs of one measurement, including those that it starts from.
        alone: whether the point has several seeds that all start from one training.
        looks: the number of measurements of each distinct point when each earlier round of a sweep
            that decides was judged.
    """

    def __init__(self, table: Table, metric: str) -> None:
        margin = (table.experiment.get("margin") or {}).get(metric)
        kind = metric.rpartition("/")[2]
        self.ratios = kind in LOGARITHMIC
        self.margin: JudgedMargin | None = None
        if margin:
            text = str(margin["size"])
            self.ratios = text.endswith("%")
            words = f"{float(text.rstrip('% ')):g}{' %' if self.ratios else ''}"
            size = _scaled(text, self.ratios)
            self.margin = JudgedMargin(size, words, str(margin["reason"]))
        self.metric = metric
        self.range = FACTOR if self.ratios else 100.0 if kind in PER_CENT else math.inf
        tuned = table.experiment.get("finetune")
        self.points = [
            point
            for point in points(table, metric)
            if tuned or metric_of(table, point.arm) == metric
        ]
        self.every = [one for point in self.points for one in (point, *point.alternatives)]
        self._rows = {str(row["run"]): row for row in table.rows}
        self._places: dict[tuple[tuple[int, str], ...], int] = {}
        self.groups: list[dict[int, float]] = []
        self.lost: list[int] = []
        self.zero: list[int] = []
        self.seconds: list[float] = []
        self.flops: list[float] = []
        self.trainings: list[int] = []
        self.alone: list[bool] = []
        self._better, self._least = direction(metric), RESOLUTION.get(kind, 0.0)
        for point in self.every:
            key = tuple(sorted(point.runs.items()))
            if key in self._places:
                continue
            self._places[key] = len(self.groups)
            lines = {run: self._line(run) for _, run in key}
            by_training: dict[str, dict[int, float]] = {}
            lost = zero = 0
            for seed, run in key:
                value = point.values.get(seed)
                states = [self._rows.get(one, {}).get("state") for one in lines[run]]
                judged = None if value is None else self.judged(value)
                if judged is not None:
                    by_training.setdefault(lines[run][-1], {})[seed] = judged
                elif value is not None:
                    zero += 1
                elif states[0] == "done" or "failed" in states:  # of the run or of one before it
                    lost += 1
            self.groups.append({min(own): mean([*own.values()]) for own in by_training.values()})
            self.lost.append(lost)
            self.zero.append(zero)
            runs = point.runs.values()
            took = [self._taken(lines[run], "seconds", "devices") for run in runs]
            planned = [self._taken(lines[run], "estimate", "devices") for run in runs]
            self.seconds.append(_mean(took if any(took) else planned))
            cost = ("flops_per_token", "tokens_seen")
            self.flops.append(_mean(self._taken(lines[run], *cost) for run in runs))
            self.trainings.append(max(map(len, lines.values())))
            self.alone.append(len(key) > len({line[-1] for line in lines.values()}) == 1)
        rounds = [one["seeds_judged"] for one in table.provenance.get("rounds") or ()]
        self.looks: list[list[int]] = []
        if rounds:
            self.looks = [
                [max((had.get(run, 0) for _, run in key), default=0) for key in self._places]
                for had in rounds
            ]

    def judged(self, value: float) -> float | None:
        """Return a value on the scale of claims, larger being better.

        It is None for a value of 0 or less where ratios are judged; below the resolution of the
        metric, a value counts as the resolution.
        """
        if not self.ratios:
            return self._better * value
        value = max(value, self._least)
        return self._better * math.log(value) if value > 0 else None

    def analyses(self) -> spreads.Sample:
        """Return the samples that were judged so far, the present one last."""
        return sequential.interim_analyses(spreads.sample(self.groups), self.looks)

    def design(self) -> Design:
        """Return the points as claims see them."""
        return Design(self.points, self.metric, ratios=self.ratios)

    def place(self, point: Point) -> int:
        """Return the place of a point among the distinct ones."""
        return self._places[tuple(sorted(point.runs.items()))]

    def average(self, point: Point) -> float:
        """Return the mean of a point's measurements, more being better; nan without any."""
        return _mean(self.groups[self.place(point)].values())

    def costs(self) -> Floats:
        """Return the relative cost of a measurement of each distinct point, above 0.

        Costs are FLOPs: with measured times, a repeated sweep would choose other seeds.
        """
        return _filled(self.flops)

    def hours(self) -> Floats | None:
        """Return the device hours of a measurement of each distinct point; None if unknown."""
        return _filled(self.seconds) / 3600 if any(map(math.isfinite, self.seconds)) else None

    def scaled(self, size: str) -> float:
        """Return a difference that a person typed, on the scale that is judged.

        Raises:
            UserError: it is not a number above 0, or per cent and number are confused.
        """
        text = size.strip()
        try:
            found = _scaled(text, self.ratios)
        except ValueError:
            found = 0.0
        if not 0 < found < math.inf or text.endswith("%") != self.ratios:
            unit = "per cent" if self.ratios else f"the unit of {self.metric}"
            remedy = "give it as in 1%" if self.ratios else "give a number"
            raise invalid_value("effect", size, f"a number above 0 in {unit}", remedy)
        return found

    def _line(self, run: str) -> list[str]:
        """Return a run, the run it starts from, and so on to the training from scratch."""
        parent = self._rows[run].get("parent") if run in self._rows else None
        return [run, *self._line(str(parent))] if parent else [run]

    def _taken(self, line: Sequence[str], *columns: str) -> float | None:
        """Return the sum over a line of runs of the product of columns; None if unknown."""
        rows = [self._rows.get(one, {}) for one in line]
        cells = [[number(row.get(column)) for column in columns] for row in rows]
        known = [math.prod(c for c in own if c is not None) for own in cells if None not in own]
        return math.fsum(known) if known and None not in cells[0] else None


def _scaled(text: str, ratios: bool) -> float:
    size = float(text.rstrip("% "))
    return math.log1p(size / 100) if ratios else size


def _known(low: float, high: float, reach: float) -> tuple[float, float]:
    """Return the ends of an interval; infinite ones if it holds all that there can be."""
    if low <= -reach and high >= reach:
        return -math.inf, math.inf
    return float(low), float(high)


def _mean(values: Iterable[float | None]) -> float:
    known = [value for value in values if value is not None]
    return mean(known) if known else math.nan


def _filled(values: Sequence[float]) -> Floats:
    """Return the values, with the mean of those above 0 (or 1) in place of the others."""
    given = np.array(values)
    known = np.isfinite(given) & (given > 0)
    return np.where(known, given, given[known].mean() if known.any() else 1.0)


_BIMODAL = "Seeds are bimodal: some runs learned and some did not, so the mean says little."
_DEPENDS = (
    "It depends on the learning rate, of two that trials cannot tell apart; more seeds of trials "
    "(experiment.tune.seeds) could."
)
_BIMODAL_FROM = 10  # seeds a point; fewer look bimodal by chance
_STEPS = 20  # within the range of a metric, at least: no evaluation has fewer rows
FACTOR = math.log(1e6)  # an interval that reaches so far on both sides says nothing
_ROUGHLY = 100  # seeds a point: where none has three, their spread is too uncertain for more


class Ranked(NamedTuple):
    """The findings of a statement.

    The deciding one is the least favourable of those that must all hold, and the most favourable of
    alternatives, where an interval above or below the threshold goes before any estimate.
    Alternatives are listed best first.
    """

    favour: float
    holds: bool
    fails: bool
    deciding: Found
    listed: list[Found]


@dataclass(frozen=True)
class Question:
    """A claim by one measure, one of `claims` of its experiment.

    Attributes:
        name: of the claim.
        measure: the measure that judges it, in words.
        statement: the contrasts of the claim, combined.
        measured: the points and their values.
        claims: the number of questions that share the chance of error.
        error: that chance, of any wrong decision among them.
        others: measurements of further points. Their spread enters expected costs, not verdicts.
    """

    name: str
    measure: str
    statement: Statement
    measured: Measurements
    claims: int = 1
    error: float = ERROR
    others: Sequence[Mapping[int, float]] = ()

    def __post_init__(self) -> None:
        """Raise Unanswerable if a contrast, of those that are no alternatives, compares nothing."""
        for contrast, *_ in asked(self.statement):
            if not self._rows([contrast.weights]).any():
                raise Unanswerable(f"Both sides of it are the same runs: {contrast.words}.")

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
        return min(len(self.measured.groups[place]) for place in self.used)

    @cached_property
    def combination(self) -> Combination:
        """The statement with places for contrasts."""
        return placed(self.statement, iter(range(len(self.contrasts))).__next__)

    @cached_property
    def levels(self) -> Floats:
        """The levels of the ends of the contrasts' intervals."""
        return sequential.levels(self.combination, len(self.contrasts), self.claims, self.error)

    @cached_property
    def margins(self) -> Floats:
        """The margin of each contrast, nan without one."""
        margin = self.measured.margin
        return np.full(len(self.contrasts), margin.size if margin else np.nan)

    @cached_property
    def analyses(self) -> Intervals:
        """The intervals of the contrasts' excess over their thresholds, by interim analysis."""
        found = sequential.intervals(self.measured.analyses(), self.weights, self.levels)
        above = np.array([contrast.above for contrast in self.contrasts])
        return Intervals(*(ends - above for ends in found))

    @cached_property
    def evidence(self) -> Intervals:
        """The same over all interim analyses together."""
        return sequential.closed(self.analyses)

    @cached_property
    def found(self) -> list[Found]:
        """The evidence on each contrast, on its own scale; the ends hold for its alternatives."""
        found: list[Found] = []
        following, ratios = 0, self.measured.ratios
        for contrast, *others in asked(self.statement):
            first, following = following, following + 1 + len(others)
            reach = self.measured.range * float(self.weights[first].clip(min=0).sum())
            values, lows, highs = (ends[..., first:following] for ends in self.evidence)
            low, high = _known(lows.min() + contrast.above, highs.max() + contrast.above, reach)
            _, lows, highs = (ends[..., first:following] + contrast.above for ends in self.analyses)
            ends = zip(lows.min(axis=-1), highs.max(axis=-1), strict=True)
            closing = [_known(*each, reach) for each in ends]
            value = float(values[0]) + contrast.above
            found.append(Found(contrast.words, value, low, high, ratios, closing))
        return found

    @cached_property
    def ranked(self) -> Ranked:
        """The findings as the statement combines them."""
        contrasts = (contrast for contrast, *_ in asked(self.statement))
        return _ranked(self.statement, zip(contrasts, self.found, strict=True))

    @cached_property
    def hopeless(self) -> str | None:
        """The reason why no further seed can decide the claim, or None."""
        measured = self.measured
        lost, zero = (
            sum(of[place] for place in self.used) for of in (measured.lost, measured.zero)
        )
        if any(measured.alone[place] for place in self.used):
            return (
                "Every seed starts from the same pre-training, so this is about these weights only;"
                " more fine-tunings say nothing of another pre-training."
            )
        if lost:
            return f"{lost} of its runs failed or diverged, without a value that can be judged."
        if zero:
            have = "run has a value" if zero == 1 else "runs have values"
            return f"{zero} {have} of 0 or less, where differences in per cent say nothing."
        return None

    @cached_property
    def obstacle(self) -> str | None:
        """The reason why the claim stays undecided whatever its intervals are, or None."""
        measured, few = self.measured, self.fewest < FIRST
        groups = [[*measured.groups[place].values()] for place in self.used]
        if self.hopeless:
            return self.hopeless
        same = spreads.identical(spreads.sample(measured.groups))
        unknown = same.all() or np.isinf(self.evidence.lows).any()
        if same[self.used].all() and unknown and not few:
            return "Seeds do not differ at all, so nothing tells a difference from chance."
        if spreads.is_bimodal(groups, measured.range / _STEPS):
            return _BIMODAL
        if few:
            return f"It takes {FIRST} seeds of every point at least; one has {self.fewest}."
        return None

    @cached_property
    def decision(self) -> Decision:
        """The decision that the evidence allows."""
        if not self.obstacle:
            decided = self._decisions(self.combination)
            for holds, decision in zip(decided, Decision, strict=False):  # both in one order
                if holds:
                    return decision
        return Decision.UNDECIDED

    @cached_property
    def depends(self) -> bool:
        """True if it is undecided only because of the values that tuning left open."""
        chosen = self._decisions(sequential.at_first(self.combination))
        return self.decision is Decision.UNDECIDED and not self.obstacle and any(map(bool, chosen))

    def verdict(self) -> Verdict:
        """Return the decision with its numbers and its explanation."""
        margin, few = self.measured.margin, self.fewest < FIRST
        listed = self.ranked.listed
        if self.decision is Decision.NOT_SUPPORTED:  # the contrast that contradicts it comes first
            listed = sorted(listed, key=lambda one: one is not self.ranked.deciding)
        numbers: dict[str, Any] = {
            "contrasts": [one.as_data() for one in self.found],
            "first": self.found.index(listed[0]),
        }
        if margin:
            numbers["margin"] = {"size": margin.words, "reason": margin.reason}

        spread_known = any(len(group) > 1 for group in (*self.measured.groups, *self.others))
        priced = not self.obstacle or (few and spread_known and not self.hopeless)
        if self.decision is Decision.UNDECIDED and priced:
            numbers["price"] = self.in_runs(self.expected_cost())
        text = explain(
            self.decision,
            listed,
            obstacle=_DEPENDS if self.depends else self.obstacle,
            margin=margin,
            cost=numbers.get("price"),
        )
        return Verdict(self.name, self.decision, text, numbers, self.measure)

    def expected_cost(self, most: int = MOST) -> Cost:
        """Return the expected cost of a decision, if a point may have `most` seeds."""
        return expected_cost(self.combination, replace(self._known(self.evidence), most=most))

    def expected_cost_at(self, effect: float) -> Cost:
        """Return the same if every contrast were `effect` beyond its threshold, at this spread.

        `effect` is on the scale that is judged; 0 gives the cost of "no difference". With a known
        spread the seeds would be enough with a probability of 80 %. While it is estimated they are
        too few (docs/decisions.md).
        """
        unknown = np.full(len(self.contrasts), np.inf)
        asked = Intervals(np.full(len(self.contrasts), effect), -unknown, unknown)
        known = replace(self._known(asked), seeds=np.zeros(len(unknown)))
        return expected_cost(self.combination, known, chance=0.8)

    def needs(self, most: int) -> Floats:
        """Return the seeds each contrast takes to the cheapest decision, 0 if none is possible."""
        following = self.fewest + 1.0
        if self.obstacle == _BIMODAL and following <= min(_BIMODAL_FROM, most):
            return np.full(len(self.contrasts), following)
        decided = any(map(bool, self._decisions(self.combination)))
        if decided or self.hopeless or (self.obstacle and self.fewest >= FIRST):
            return np.zeros(len(self.contrasts))
        return self.expected_cost(most).needs

    def in_runs(self, cost: Cost) -> dict[str, float | None]:
        """Return seeds a point, more runs and device hours of a cost; None if none is in sight."""
        most = max(map(len, (*self.measured.groups, *self.others)))
        sight = MOST if most >= FIRST else _ROUGHLY
        if not float(cost.seeds) < sight:
            return {"seeds": None, "runs": None, "hours": None}
        wanted = np.where(self.weights != 0, np.ceil(cost.needs)[:, None], 0.0).max(axis=0)
        more = np.maximum(wanted - [len(group) for group in self.measured.groups], 0)
        hours = self.measured.hours()
        return {
            "seeds": math.ceil(float(cost.seeds)),
            "runs": int((more * self.measured.trainings).sum()),
            "hours": None if hours is None else float((more * hours).sum()),
        }

    def _decisions(self, claim: Combination) -> sequential.Decisions:
        return sequential.decisions(claim, self.evidence, self.margins)

    def _known(self, found: Intervals) -> Known:
        now = spreads.sample([*self.measured.groups, *self.others])
        weights = np.pad(self.weights, ((0, 0), (0, len(self.others))))
        single = np.sqrt(spreads.errors(now, weights, spreads.moderated(now)).single)
        counts = sequential.effective_seeds(weights, now.counts)
        return Known(found, single, counts, self.levels, self.margins)

    def _rows(self, sums: Sequence[Weights]) -> Floats:
        found = np.zeros((len(sums), len(self.measured.groups)))
        for row, weights in zip(found, sums, strict=True):
            for weight, point in weights:
                row[self.measured.place(point)] += weight
        found[np.abs(found) < NOTHING] = 0.0  # both sides of a contrast may have a point
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
