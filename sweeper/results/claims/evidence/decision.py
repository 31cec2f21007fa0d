"""What was measured of an experiment's points, seed by seed, on the scale that is judged.

A measurement is one training from scratch. Where runs start from others, that is the first of them:
several fine-tunings of one pre-training are averaged, for what they share was drawn once. Points
that are the same runs are one point, or their difference would be taken for an independent one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from sweeper.results.claims.evidence.design import (
    Contrast,
    Design,
    Statement,
    Weights,
    contrasts,
    placed,
)
from sweeper.results.claims.evidence.verdict import Answer, Found, Verdict, listed, priced
from sweeper.results.points import Point, metric_of, points
from sweeper.results.statistics.estimates import mean
from sweeper.results.statistics.expected_cost import MOST, Known, Price, known, price
from sweeper.results.statistics.sequential import (
    FIRST,
    Answers,
    AnyOf,
    Combination,
    Floats,
    Intervals,
    answers,
    closed,
    intervals,
    levels,
    looks,
)
from sweeper.results.statistics.spreads import identical, moderated, sample, two_heaps
from sweeper.results.table import LOGARITHMIC, RESOLUTION, Table, direction, number
from sweeper.store.errors import invalid_value
from sweeper.store.plans import ERROR


@dataclass(frozen=True)
class Margin:
    """The largest difference that does not matter, on the scale that is judged, and why."""

    size: float
    words: str
    reason: str


class Measurements:
    """The distinct points of an experiment by one measure.

    Attributes:
        points: every planned point.
        ratios: whether values are logarithms.
        groups: by the place of a distinct point, its measurements in the order of seeds, larger
            being better.
        lost: how many seeds of it were trained and have no value that can be judged.
        seconds: what one takes, mean of those that are done; where none is, what was estimated
            when it was planned, or nan.
        flops: the same in training FLOPs, which another machine or another day does not change.
        trainings: the runs that one takes, those that it starts from included.
        alone: whether it has several seeds that all start from one training.
    """

    def __init__(self, table: Table, metric: str) -> None:
        margin = (table.experiment.get("margin") or {}).get(metric)
        kind = metric.rpartition("/")[2]
        relative = isinstance(margin, Mapping) and str(margin["size"]).endswith("%")
        self.ratios = relative or (margin is None and kind in LOGARITHMIC)
        self.margin = _margin(margin, self.ratios) if margin else None
        self.metric, self._better = metric, direction(metric)
        tuned = table.experiment.get("finetune")
        self.points = [
            point
            for point in points(table, metric)
            if tuned or metric_of(table, point.arm) == metric
        ]
        self._rows = {str(row["run"]): row for row in table.rows}
        self._places: dict[tuple[tuple[int, str], ...], int] = {}
        self.groups: list[list[float]] = []
        self.lost: list[int] = []
        self.seconds: list[float] = []
        self.flops: list[float] = []
        self.trainings: list[int] = []
        self.alone: list[bool] = []
        for point in self.points:
            if self._key(point) not in self._places:
                self._places[self._key(point)] = len(self.groups)
                self._add(point)

    def design(self) -> Design:
        return Design(self.points, self.metric, ratios=self.ratios)

    def place(self, point: Point) -> int:
        return self._places[self._key(point)]

    def costs(self) -> Floats:
        """What a measurement of each distinct point costs against the others, above 0.

        By FLOPs: measured times would have the same sweep choose other seeds when it is repeated.
        """
        return _filled(self.flops)

    def hours(self) -> Floats | None:
        """Hours that a measurement of each distinct point takes; None where none is known."""
        return _filled(self.seconds) / 3600 if any(map(math.isfinite, self.seconds)) else None

    def scaled(self, size: str) -> float:
        """A difference as a person writes one, on the scale that is judged.

        Raises:
            UserError: it is none, or per cent where differences are judged, or the other way.
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

    def _key(self, point: Point) -> tuple[tuple[int, str], ...]:
        return tuple(sorted(point.runs.items()))

    def _add(self, point: Point) -> None:
        by_training: dict[str, list[float]] = {}
        lost = 0
        for seed in sorted(point.runs):
            run = point.runs[seed]
            value = self._goodness(point.values.get(seed))
            if value is not None:
                by_training.setdefault(self._line(run)[-1], []).append(value)
            elif str(self._rows[run]["state"]) in ("done", "failed"):
                lost += 1
        first = {self._line(run)[-1] for run in point.runs.values()}
        self.groups.append([mean(values) for values in by_training.values()])
        self.lost.append(lost)
        runs = list(point.runs.values())
        took = [self._taken(run, "seconds") for run in runs]
        planned = [self._taken(run, "estimate") for run in runs]
        self.seconds.append(_mean(took if any(took) else planned))
        flops = (self._taken(run, "flops_per_token", "tokens_seen") for run in runs)
        self.flops.append(_mean(flops))
        self.trainings.append(max(len(self._line(run)) for run in runs))
        self.alone.append(len(point.runs) > len(first) == 1)

    def _line(self, run: str) -> list[str]:
        """A run, the one it starts from, and so on to the training from scratch."""
        parent = self._rows[run].get("parent") if run in self._rows else None
        return [run, *self._line(str(parent))] if parent else [run]

    def _taken(self, run: str, *columns: str) -> float | None:
        """The product of columns, of a run and of those that it starts from; None if not known."""
        rows = [self._rows.get(one, {}) for one in self._line(run)]
        cells = [[number(row.get(column)) for column in columns] for row in rows]
        known = [math.prod(c for c in own if c is not None) for own in cells if None not in own]
        return math.fsum(known) if known and None not in cells[0] else None

    def _goodness(self, value: float | None) -> float | None:
        if value is None or (self.ratios and value <= 0):
            return None
        least = RESOLUTION.get(self.metric.rpartition("/")[2], 0.0)
        told = math.log(max(value, least)) if self.ratios else value
        return self._better * told


def _margin(given: Mapping[str, Any], ratios: bool) -> Margin:
    text = str(given["size"])
    words = f"{float(text.rstrip('% ')):g}{' %' if ratios else ''}"
    return Margin(_scaled(text, ratios), words, str(given["reason"]))


def _scaled(text: str, ratios: bool) -> float:
    size = float(text.rstrip("% "))
    return math.log1p(size / 100) if ratios else size


def _mean(values: Iterable[float | None]) -> float:
    known = [value for value in values if value is not None]
    return mean(known) if known else math.nan


def _filled(values: Sequence[float]) -> Floats:
    """The values; where there is none above 0, the mean of the others, or 1."""
    given = np.array(values)
    known = np.isfinite(given) & (given > 0)
    return np.where(known, given, given[known].mean() if known.any() else 1.0)


_HEAPS = "Seeds fall into two heaps far apart, which no mean describes: not all learned."
_TELLING = 10  # seeds a point; of fewer, some fall into what look like heaps by chance


class _Weighed(NamedTuple):
    """How favourable a statement's finding is, what decides, and all in the order told.

    What decides is the least favourable of all that must hold, and the most of what would each do;
    of the latter the best is told first.
    """

    favour: float
    deciding: Found
    told: list[Found]


@dataclass(frozen=True)
class Question:
    """One claim by one measure, one of `claims` of its experiment.

    Attributes:
        name: of the claim.
        measure: by what it is judged, in words.
        statement: what it says.
        measured: the points and their values.
        claims: how many questions share the chance of error.
        error: that chance, of any wrong answer among them.
        others: measurements of further points, whose spread prices go by; verdicts do not.
    """

    name: str
    measure: str
    statement: Statement
    measured: Measurements
    claims: int = 1
    error: float = ERROR
    others: Sequence[Sequence[float]] = ()

    @cached_property
    def contrasts(self) -> list[Contrast]:
        """Those of the statement, from left to right."""
        return contrasts(self.statement)

    @cached_property
    def weights(self) -> Floats:
        """Of the contrasts, (contrasts, distinct points)."""
        return self._rows([contrast.weights for contrast in self.contrasts])

    @cached_property
    def used(self) -> list[int]:
        """The places of the distinct points that the claim rests on."""
        return np.flatnonzero((self.weights != 0).any(axis=0)).tolist()

    @cached_property
    def claim(self) -> Combination:
        """The statement with places for contrasts."""
        return placed(self.statement, iter(range(len(self.contrasts))).__next__)

    @cached_property
    def levels(self) -> Floats:
        """Of the ends of the contrasts' intervals."""
        return levels(self.claim, len(self.contrasts), self.claims, self.error)

    @cached_property
    def closing(self) -> Intervals:
        """The intervals of the contrasts' excess over their thresholds, look by look."""
        found = intervals(looks(self.measured.groups), self.weights, self.levels)
        above = np.array([contrast.above for contrast in self.contrasts])
        return Intervals(*(ends - above for ends in found))

    @cached_property
    def margins(self) -> Floats:
        """Of the contrasts."""
        margin = self.measured.margin
        return np.full(len(self.contrasts), margin.size if margin else np.nan)

    @cached_property
    def said(self) -> Answers:
        """What the intervals say, whatever else is the matter."""
        return answers(self.claim, closed(self.closing), self.margins)

    def price(self, most: int = MOST) -> Price:
        """What an answer is expected to cost, if a point may have `most` seeds."""
        return price(self.claim, replace(self._known(closed(self.closing)), most=most))

    def price_of(self, effect: float, chance: float = 0.8) -> Price:
        """The same if every contrast were `effect` beyond its threshold, at the spread so far.

        `effect` is on the scale that is judged; 0 asks for the price of "no difference". `chance`
        is that with which so many seeds are enough.
        """
        unknown = np.full(len(self.contrasts), np.inf)
        asked = Intervals(np.full(len(self.contrasts), effect), -unknown, unknown)
        return price(self.claim, replace(self._known(asked), seeds=np.zeros(len(unknown))), chance)

    def _known(self, found: Intervals) -> Known:
        now = sample([*self.measured.groups, *self.others])
        weights = np.pad(self.weights, ((0, 0), (0, len(self.others))))
        return known(found, now, moderated(now), weights, self.levels, self.margins)

    def needs(self, most: int) -> Floats:
        """The seeds each contrast takes to the cheapest answer, 0 where none is to be had."""
        obstacle, following = self.obstacle(), self._fewest() + 1.0
        if obstacle == _HEAPS and following <= min(_TELLING, most):
            return np.full(len(self.contrasts), following)
        if any(map(bool, self.said)) or (obstacle and not self._few()):
            return np.zeros(len(self.contrasts))
        return self.price(most).needs

    def obstacle(self) -> str | None:
        """Why the claim stays undecided, whatever its intervals say: a sentence, or None."""
        measured = self.measured
        groups = [measured.groups[place] for place in self.used]
        lost = sum(measured.lost[place] for place in self.used)
        if any(measured.alone[place] for place in self.used):
            return (
                "Every seed starts from the same pre-training, so this is about these weights only;"
                " more fine-tunings say nothing of another pre-training."
            )
        if lost:
            return f"{lost} of its runs failed or diverged: they have no value that can be judged."
        if identical(sample(measured.groups)) and not self._few():
            return "Seeds do not differ at all, so nothing tells a difference from chance."
        if two_heaps(groups):
            return _HEAPS
        if self._few():
            fewest = min(map(len, groups))
            return f"It takes {FIRST} seeds of every point at least; one has {fewest}."
        return None

    def _few(self) -> bool:
        return self._fewest() < FIRST

    def _fewest(self) -> int:
        return min(len(self.measured.groups[place]) for place in self.used)

    def verdict(self) -> Verdict:
        obstacle = self.obstacle()
        said = zip((*self.said, True), Answer, strict=True)  # both in one order
        answer = Answer.UNDECIDED if obstacle else next(one for holds, one in said if holds)
        numbers: dict[str, Any] = {
            "contrasts": [one.as_data() for one in self.found],
            "first": self.found.index(self.weighed.told[0]),
        }
        margin = self.measured.margin
        if margin:
            numbers["margin"] = {"size": margin.words, "reason": margin.reason}
        told = [obstacle] if obstacle else []
        noted = [] if self._few() else enumerate(self.contrasts)
        notes = [contrast.note(partial(self._read, place)) for place, contrast in noted]
        told.append(listed([*map(str, self.weighed.told)], [note for note in notes if note]))
        if answer is Answer.NO_DIFFERENCE and margin:
            told.append(f"All within {margin.words}: {margin.reason}")
        if answer is Answer.UNDECIDED and (not obstacle or self._few()):
            numbers["price"] = cost = self.cost(self.price())
            told.append(priced(cost, bool(margin)))
        return Verdict(self.name, answer, " ".join(told), numbers, self.measure)

    def _rows(self, sums: Sequence[Weights]) -> Floats:
        found = np.zeros((len(sums), len(self.measured.groups)))
        for row, weights in zip(found, sums, strict=True):
            for weight, point in weights:
                row[self.measured.place(point)] += weight
        return found

    def _read(self, place: int, sums: Sequence[Weights]) -> Intervals:
        levels = np.repeat(self.levels[[place]], len(sums), axis=0)
        return closed(intervals(looks(self.measured.groups), self._rows(sums), levels))

    @cached_property
    def found(self) -> list[Found]:
        return [self._one(place, closed(self.closing)) for place in range(len(self.contrasts))]

    @cached_property
    def weighed(self) -> _Weighed:
        """What was found, as the statement takes it."""
        return _weighed(self.statement, zip(self.contrasts, self.found, strict=True))

    def _one(self, place: int, ends: Intervals) -> Found:
        contrast = self.contrasts[place]
        value, low, high = (float(array[place]) + contrast.above for array in ends)
        by_look = zip(self.closing.lows[:, place], self.closing.highs[:, place], strict=True)
        closing = [(float(a) + contrast.above, float(b) + contrast.above) for a, b in by_look]
        return Found(contrast.words, value, low, high, self.measured.ratios, closing)

    def cost(self, asked: Price) -> dict[str, float | None]:
        """Seeds a point, more runs and device hours of a price; None where no end is in sight."""
        if not float(asked.seeds) < MOST:
            return {"seeds": None, "runs": None, "hours": None}
        wanted = np.where(self.weights != 0, np.ceil(asked.needs)[:, None], 0.0).max(axis=0)
        more = np.maximum(wanted - [len(group) for group in self.measured.groups], 0)
        hours = self.measured.hours()
        return {
            "seeds": math.ceil(float(asked.seeds)),
            "runs": int((more * self.measured.trainings).sum()),
            "hours": None if hours is None else float((more * hours).sum()),
        }


def _weighed(statement: Statement, found: Iterator[tuple[Contrast, Found]]) -> _Weighed:
    if isinstance(statement, Contrast):
        contrast, own = next(found)
        favour = -abs(own.value) if contrast.same else own.value - contrast.above
        return _Weighed(favour, own, [own])
    parts = [_weighed(part, found) for part in statement.parts]
    if isinstance(statement, AnyOf):
        parts.sort(key=lambda part: -part.favour)
    first = parts[0] if isinstance(statement, AnyOf) else min(parts, key=lambda one: one.favour)
    return first._replace(told=[one for part in parts for one in part.told])
