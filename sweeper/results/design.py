"""Claims as statements on contrasts of points: sums of weight * mean, above 0 if a claim is right.

A design has the points of an experiment without measurements, so that a claim can be checked, and
its expected cost computed, before anything is trained.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise, product
from typing import TypeAlias

import numpy as np

from sweeper.results.points import Point
from sweeper.results.table import label
from sweeper.store.numbers import plural

# Weights are about 1, those of points that cancel are left from rounding.
NOTHING = 1e-12
_SHAPE = (
    "layers",
    "embedding_size",
    "heads",
    "head_size",
    "feedforward_size",
)  # of a model
Weights = Sequence[tuple[float, Point]]


class Unanswerable(Exception):
    """The reason, a sentence, why the points of an experiment cannot decide a claim."""


@dataclass(frozen=True)
class Contrast:
    """The claim that a sum of weight * goodness is above a number.

    Attributes:
        words: the comparison, to stand before "better by 1.3 %".
        weights: the weights of the points' means. Larger means are better, for every metric.
        above: the number, on the judged scale. It is a natural logarithm if `Design.ratios` is set.
        others: the weights for other values of the tuned keys. A decision must hold for these too.
    """

    words: str
    weights: Weights
    above: float = 0.0
    others: Sequence[Weights] = ()


@dataclass(frozen=True)
class All:
    """The claim that all of these hold."""

    parts: Sequence["Statement"]


@dataclass(frozen=True)
class AnyOf:
    """The claim that at least one of these holds."""

    parts: Sequence["Statement"]


Statement: TypeAlias = "Contrast | All | AnyOf"


def contrasts_of(statement: Statement) -> list[Contrast]:
    """Return the contrasts of a statement from left to right."""
    if isinstance(statement, Contrast):
        return [statement]
    return [one for part in statement.parts for one in contrasts_of(part)]


ALL = 256  # combinations of alternatives; of more, some are asked


def with_alternatives(
    statement: Statement, average: Callable[[Point], float]
) -> Statement:
    """Return a statement that asks each contrast with every alternative of its points, too.

    Where these are more than ALL combinations, it asks with each alternative by itself, and with
    the values of all points that make the contrast largest and smallest.

    Args:
        average: returns the mean of a point's measurements, more being better; nan without any.
    """
    if not isinstance(statement, Contrast):
        parts = [with_alternatives(part, average) for part in statement.parts]
        return type(statement)(parts)
    totals: dict[int, float] = {}
    points = {id(point): point for _, point in statement.weights}
    for weight, point in statement.weights:
        totals[id(point)] = totals.get(id(point), 0.0) + weight
    choices = {
        key: [point, *point.alternatives]
        for key, point in points.items()
        if point.alternatives and abs(totals[key]) > NOTHING
    }
    combinations: list[tuple[Point, ...]]
    if math.prod(map(len, choices.values())) <= ALL:
        combinations = [*product(*choices.values())][1:]
    else:
        first = tuple(points[key] for key in choices)
        combinations = [
            (*first[:place], other, *first[place + 1 :])
            for place, point in enumerate(first)
            for other in point.alternatives
        ]
        for best in (max, min):
            combinations.append(
                tuple(
                    best(own, key=lambda one: totals[key] * average(one))
                    for key, own in choices.items()
                )
            )
    others = []
    for combination in combinations:
        instead = dict(zip(choices, combination, strict=True))
        others.append([(w, instead.get(id(p), p)) for w, p in statement.weights])
    return replace(statement, others=others)


@dataclass(frozen=True)
class Design:
    """The points of an experiment as a claim sees them.

    Attributes:
        points: every planned point, in the order of the plan.
        metric: the column that is judged.
        ratios: whether differences of its logarithm are judged.
    """

    points: Sequence[Point]
    metric: str
    ratios: bool

    @property
    def arms(self) -> list[str]:
        """The arms, in the order of the plan."""
        return list(dict.fromkeys(point.arm for point in self.points))

    def of(self, *arms: str) -> list[Point]:
        """Return the points of these arms; raise Unanswerable for an unknown arm."""
        absent = [arm for arm in arms if arm not in self.arms]
        if absent:
            raise Unanswerable(f"It has no arm {', '.join(absent)} with {self.metric}.")
        return [point for point in self.points if point.arm in arms]


def by(column: str, given: Collection[Point]) -> list[Point]:
    """Return the points in the order of a column, which must differ between them."""
    found = sorted(given, key=lambda point: at(point, column))
    if len({at(point, column) for point in found}) < len(found):
        raise Unanswerable(f"More varies there than {column}.")
    return found


def alone(column: str, given: Collection[Point]) -> list[Point]:
    """Return the points in the order of a column; no other size of their models may differ."""
    found = by(column, given)
    keys = [f"model.{key}" for key in _SHAPE if f"model.{key}" != column]
    others = [key for key in keys if len({point.cells.get(key) for point in found}) > 1]
    if others:
        raise Unanswerable(f"More varies there than {column}: {', '.join(others)}.")
    return found


def check_equal(given: Collection[Point], column: str, words: str) -> float:
    """Return by which share points, in words, differ in a column.

    Raise Unanswerable if it is more than 1 %.
    """
    numbers = [at(point, column) for point in given]
    error = max(numbers) / min(numbers) - 1
    if error > 0.01:
        raise Unanswerable(f"{words} differ in {label(column)}.")
    return error


def at(point: Point, column: str) -> float:
    """Return the number of a point in a column."""
    value = point.at(column)
    if value is None:
        raise Unanswerable(f"A point of arm {point.arm} has no number in {column}.")
    return value


def curves(column: str, given: Collection[Point]) -> dict[float, list[Point]]:
    """Return the points grouped by their number in a column, smallest first."""
    ordered = sorted(given, key=lambda point: at(point, column))
    return {
        number: list(same)
        for number, same in groupby(ordered, lambda point: at(point, column))
    }


def over(one: Point, other: Point, words: str) -> Contrast:
    """Return the contrast that one point is better than another."""
    return Contrast(words, [(1.0, one), (-1.0, other)])


def trend(curve: Sequence[Point], column: str, words: str) -> Contrast:
    """Return the contrast that a curve rises, by a line through its points in a column's log.

    The contrast is the gain of the line from the first point to the last.
    """
    weights = slopes([at(point, column) for point in curve])
    return Contrast(words, list(zip(weights, curve, strict=True)))


def ahead(design: Design, arm: str, rival: str, equal: str) -> Contrast:
    """Return the contrast that an arm is better than a rival, as means over the points of each.

    Raise Unanswerable if the points differ by more than 1 % in the column `equal`.
    """
    ours, theirs = design.of(arm), design.of(rival)
    error = check_equal([*ours, *theirs], equal, f"Points of {arm} and {rival}")
    weights = [(1 / len(ours), point) for point in ours]
    weights += [(-1 / len(theirs), point) for point in theirs]
    return Contrast(f"{arm} over {rival} at {equal_within(equal, error)}", weights)


def equal_within(column: str, error: float) -> str:
    """Return in words that a column is equal, with the relative error if it is not exactly so."""
    if not error:
        return f"equal {label(column)}"
    return f"{label(column)} equal within {math.ceil(error * 1e4) / 100:g} %"


def larger_heads_gain_more(design: Design, arm: str, rival: str) -> Contrast:
    """Return the contrast that larger heads gain more in an arm than in a rival, at equal width."""
    width, *others = {at(point, "width") for point in design.of(arm, rival)}
    if others:
        raise Unanswerable(f"Points of {arm} and {rival} differ in width.")
    sizes, weights = trends_apart(design.of(arm), design.of(rival), "model.head_size")
    heads = f"from heads of {sizes[0]:.0f} to {sizes[-1]:.0f} at width {width:g}"
    return Contrast(f"{heads} for {arm}, and not for {rival},", weights)


def trends_apart(
    curve: Collection[Point], rival: Collection[Point], column: str
) -> tuple[list[float], Weights]:
    """Return the numbers that two curves share in a column, and the weights of their trends apart.

    Raise Unanswerable if they share fewer than two.
    """
    first, second = (
        {at(point, column): point for point in by(column, one)}
        for one in (curve, rival)
    )
    shared = sorted(first.keys() & second.keys())
    if len(shared) < 2:
        raise Unanswerable(
            f"The claim needs two values of {label(column)} that both arms have."
        )
    return shared, [
        (sign * slope, curve[number])
        for sign, curve in ((1, first), (-1, second))
        for number, slope in zip(shared, slopes(shared), strict=True)
    ]


def slopes(sizes: Sequence[float]) -> list[float]:
    """Return the weights of means whose sum is the gain of their line in log size."""
    logs = np.log(np.asarray(sizes, dtype=np.float64))
    centred = logs - logs.mean()
    weights: list[float] = (
        centred * (logs[-1] - logs[0]) / (centred**2).sum()
    ).tolist()
    return weights


def slope_of_slopes(
    grid: Mapping[float, Mapping[float, Point]], shared: Sequence[float]
) -> Weights:
    """Return the weights of how much more a factor gains where a second factor is larger.

    Args:
        grid: the points by the second factor, ascending, and by the first one.
        shared: the values of the first factor, ascending, that all values of the second one have.
    """
    return [
        (across * along, grid[outer][inner])
        for outer, across in zip(grid, slopes(list(grid)), strict=True)
        for inner, along in zip(shared, slopes(shared), strict=True)
    ]


def keeps_improving(curve: Collection[Point], column: str, several: str) -> Statement:
    """Return the statement that a curve rises as a whole, and still from its middle on."""
    if len(curve) < 3:
        raise Unanswerable(
            f"The claim needs three or more values of {column}, and has {len(curve)}."
        )
    ordered = alone(column, curve)
    upper = ordered[(len(ordered) - 1) // 2 :]
    whole, later = (
        f"{at(part[0], column):.0f} to {at(part[-1], column):.0f}"
        for part in (ordered, upper)
    )
    return All(
        [
            trend(ordered, column, f"from {whole} {several}"),
            trend(upper, column, f"still from {later}"),
        ]
    )


def most_heads_lose(
    found: Sequence[tuple[str, Sequence[Point]]], shared: str
) -> Statement:
    """Return the statement that in every group some fewer heads are better than the most.

    `found` has the words and the points of each group, `shared` says what its points share.
    """
    parts: list[Statement] = []
    for where, points in found:
        *fewer, most = by("model.heads", points)
        if not fewer:
            continue
        heads = f"{at(most, 'model.heads'):.0f} at {where}"
        words = [plural(int(at(p, "model.heads")), "head") for p in fewer]
        better = [
            over(p, most, f"{w} over {heads}")
            for p, w in zip(fewer, words, strict=True)
        ]
        parts.append(AnyOf(better))
    if not parts:
        raise Unanswerable(f"No two numbers of heads share one {shared}.")
    return All(parts)


def read_at(curve: Collection[Point], size: float) -> list[tuple[float, Point]]:
    """Return the weights of the mean of a curve at a number of parameters, linear in its log."""
    ordered = by("params_total", curve)
    for left, right in pairwise(ordered):
        low, high = at(left, "params_total"), at(right, "params_total")
        if low <= size <= high and low < high:
            share = math.log(size / low) / math.log(high / low)
            return [(1 - share, left), (share, right)]
    raise Unanswerable("No number of parameters lies within the range of both arms.")


def knee(curve: Collection[Point], expected: int) -> list[Contrast]:
    """Return that the error falls tenfold at a head size, and nowhere before it."""
    by_size = {round(at(p, "model.head_size")): p for p in by("model.head_size", curve)}
    length = at(next(iter(by_size.values())), "task.sequence_length")
    if not {expected - 1, expected} <= by_size.keys():
        raise Unanswerable(
            f"For n = {length:.0f} head sizes around {expected} are not measured."
        )
    order = math.log(10)

    def fall(better: int, worse: int, above: float) -> Contrast:
        words = f"heads of {better} over {worse} for n = {length:.0f}"
        return Contrast(words, [(1.0, by_size[better]), (-1.0, by_size[worse])], above)

    earlier = range(min(by_size) + 1, expected)
    pairs = ((size - 1, size) for size in earlier if {size - 1, size} <= by_size.keys())
    return [
        fall(expected, expected - 1, order),
        *(fall(*pair, -order) for pair in pairs),
    ]
