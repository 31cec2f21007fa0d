"""The statements that claims return: contrasts of points, combined by `All` and `AnyOf`.

A point is one setting with all its seeds. A contrast is a sum of weight * mean over points, and
says that this sum is above a threshold, usually 0. A claim builds its statement from a `Design`:
the planned points, whether measured or not. So before a sweep trains anything, it can reject a
claim that its points cannot decide.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise
from operator import itemgetter
from typing import NamedTuple, TypeAlias

import numpy as np

from sweeper.results.points import Point
from sweeper.results.statistics.sequential import Floats, Intervals
from sweeper.results.table import label
from sweeper.results.verdict import Decision
from sweeper.store.numbers import plural

# A weight below this counts as 0. It is the rounding error of two weights that cancel.
NOTHING = 1e-12
_MODEL_SIZES = (
    "model.layers",
    "model.embedding_size",
    "model.heads",
    "model.head_size",
    "model.feedforward_size",
)
Weights = Sequence[tuple[float, Point]]


class Unanswerable(Exception):
    """Raised if an experiment's points cannot decide a claim. The message says why."""


@dataclass(frozen=True)
class Contrast:
    """The claim that a sum of weight * mean over points is above a threshold.

    Attributes:
        words: the comparison, for example "2 heads over 16 heads". Messages append "better by
            1.3 %" to it.
        weights: pairs of a weight and the point whose mean it multiplies. The means are on the
            judged scale, on which larger is better for every metric.
        above: the threshold, on the judged scale. It is a natural logarithm if claims judge ratios
            of the metric.
        extremes: the weights of two more contrasts, in which alternatives replace points
            (`Point.alternatives`). In the first, the replacements make the sum as large as
            possible, and in the second as small as possible. A decision must hold for both. () if
            no point has alternatives.
    """

    words: str
    weights: Weights
    above: float = 0.0
    extremes: Sequence[Weights] = ()


@dataclass(frozen=True)
class All:
    """The claim that all parts hold.

    Attributes:
        parts: the combined statements.
        left_out: a sentence on the points that the claim does not use, or "" if it uses all.
    """

    parts: Sequence["Statement"]
    left_out: str = ""


@dataclass(frozen=True)
class AnyOf:
    """The claim that at least one part holds."""

    parts: Sequence["Statement"]


Statement: TypeAlias = "Contrast | All | AnyOf"


def contrasts_of(statement: Statement) -> list[Contrast]:
    """Return the contrasts of a statement from left to right."""
    if isinstance(statement, Contrast):
        return [statement]
    return [one for part in statement.parts for one in contrasts_of(part)]


def levels(statement: Statement, low: float, high: float) -> Floats:
    """Divide the probability of a wrong decision on a statement among its contrasts.

    The parts of `All` divide `high` equally, because an error in any one of them can refute a true
    statement. The parts of `AnyOf` divide `low` equally, because an error in any one of them can
    support a false statement.

    Args:
        statement: the combined contrasts.
        low: the probability that a false statement is supported.
        high: the probability that a true statement is not supported.

    Returns:
        For each contrast, the probabilities that the true value lies below and above its interval,
        of shape (contrasts, 2).
    """
    if isinstance(statement, Contrast):
        return np.array([[low, high]])
    count = len(statement.parts)
    if isinstance(statement, All):
        high /= count
    else:
        low /= count
    return np.concatenate([levels(part, low, high) for part in statement.parts])


def decide(
    statement: Statement, found: Intervals, margin: float = math.nan
) -> Decision:
    """Return the decision that these intervals allow.

    Args:
        statement: the combined contrasts.
        found: an interval for each contrast, as arrays of the shape (contrasts,).
        margin: the largest difference that does not matter, on the judged scale; nan if the
            experiment has no margin.
    """
    sign, _ = ranked(statement, found).rank
    if sign:
        return Decision.SUPPORTED if sign > 0 else Decision.NOT_SUPPORTED
    known = found.lows <= found.highs
    alike = known & (found.lows > -margin) & (found.highs < margin)
    return Decision.NO_DIFFERENCE if alike.all() else Decision.UNDECIDED


class Ranked(NamedTuple):
    """The result of `ranked`. It refers to contrasts by their index in `contrasts_of`.

    Attributes:
        rank: a pair to sort statements by. The first number is 1 if the statement holds, -1 if it
            fails, and 0 if it is undecided. The second is the estimate of the deciding contrast.
        deciding: the index of the contrast that decides the statement.
        listed: the indices of all contrasts, in the order in which a verdict names them.
    """

    rank: tuple[int, float]
    deciding: int
    listed: list[int]


def ranked(statement: Statement, found: Intervals) -> Ranked:
    """Find the contrast that decides a statement, and the order in which a verdict names contrasts.

    `All` is decided by its weakest part, and `AnyOf` by its strongest. The parts of `All` are
    listed in their order, and those of `AnyOf` strongest first.
    """
    places = count()

    def rank(part: Statement) -> Ranked:
        if isinstance(part, Contrast):
            place = next(places)
            sign = int(found.lows[place] > 0) - int(found.highs[place] < 0)
            return Ranked((sign, float(found.values[place])), place, [place])
        parts = [rank(one) for one in part.parts]
        weakest_first = sorted(parts, key=itemgetter(0))
        deciding = weakest_first[0]
        if isinstance(part, AnyOf):
            parts = weakest_first[::-1]
            deciding = parts[0]
        return deciding._replace(
            listed=[place for one in parts for place in one.listed]
        )

    return rank(statement)


def with_alternatives(
    statement: Statement, average: Callable[[Point], float]
) -> Statement:
    """Return the statement with `Contrast.extremes` set where points have alternatives.

    A point's alternatives are the same point with other tuned values, such as another learning
    rate. For the first extreme, each point is replaced by the alternative that makes the contrast
    largest, and for the second, by the one that makes the contrast smallest. A point stays if none
    of its alternatives goes further.

    Args:
        statement: the combined contrasts.
        average: a function that returns the mean of a point's measurements, larger being better.
            It returns nan for a point without measurements.
    """
    if not isinstance(statement, Contrast):
        parts = [with_alternatives(part, average) for part in statement.parts]
        return replace(statement, parts=parts)
    if not any(point.alternatives for _, point in statement.weights):
        return statement
    totals: dict[int, float] = defaultdict(float)
    for weight, point in statement.weights:
        totals[id(point)] += weight

    def extreme(point: Point, sign: int) -> Point:
        """Return the point, or the alternative to it, that adds most to `sign` * contrast.

        A point or alternative without measurements counts as adding most.
        """
        every = [point, *point.alternatives]
        effects = [sign * totals[id(point)] * average(one) for one in every]
        return every[int(np.nan_to_num(effects, nan=math.inf).argmax())]

    extremes = [
        [(weight, extreme(point, sign)) for weight, point in statement.weights]
        for sign in (1, -1)
    ]
    return replace(statement, extremes=extremes)


@dataclass(frozen=True)
class Design:
    """The points of an experiment, as passed to a claim.

    Attributes:
        points: every planned point, in the order of the plan.
        metric: the judged column.
    """

    points: Sequence[Point]
    metric: str

    @property
    def arms(self) -> list[str]:
        """The names of the arms, in the order of the plan."""
        return list(dict.fromkeys(point.arm for point in self.points))

    def of(self, *arms: str) -> list[Point]:
        """Return the points of these arms. Raise Unanswerable if one of the arms has none."""
        absent = [arm for arm in arms if arm not in self.arms]
        if absent:
            raise Unanswerable(
                f"The experiment has no arm {' or '.join(absent)} with the metric {self.metric}; "
                "add such an arm, or leave the claim out."
            )
        return [point for point in self.points if point.arm in arms]


def by(column: str, given: Collection[Point]) -> list[Point]:
    """Return the points in ascending order of a column.

    Raise Unanswerable if two points have the same number in it.
    """
    return list(numbered(column, given).values())


def numbered(column: str, given: Collection[Point]) -> dict[float, Point]:
    """Return the points, keyed by their number in a column, in ascending order.

    Raise Unanswerable if two points have the same number in it.
    """
    found = {at(point, column): point for point in given}
    if len(found) < len(given):
        raise Unanswerable(
            f"The claim needs points with different values of {column}, but several points have "
            "the same value; give every other key a single value."
        )
    return dict(sorted(found.items()))


def alone(column: str, given: Collection[Point]) -> dict[float, Point]:
    """Return the points, keyed by their number in a column, in ascending order.

    Raise Unanswerable if two points have the same number in it, or if the points differ in another
    of the sizes in _MODEL_SIZES.
    """
    others = [
        key
        for key in _MODEL_SIZES
        if key != column and len({point.cells.get(key) for point in given}) > 1
    ]
    if others:
        raise Unanswerable(
            f"The claim needs points that differ only in {column}, but these also differ in "
            f"{', '.join(others)}; give every other key one value."
        )
    return numbered(column, given)


def check_equal(given: Collection[Point], column: str, words: str) -> float:
    """Return the largest relative difference between these points in a column.

    Raise Unanswerable if the difference is above 1 %. `words` is the start of the error message,
    for example "Models of width 64".
    """
    numbers = [at(point, column) for point in given]
    error = max(numbers) / min(numbers) - 1
    if error > 0.01:
        raise Unanswerable(
            f"{words} differ in {label(column)} by {100 * error:.3g} %, but the claim needs "
            "them equal; choose sizes that are equal within 1 %."
        )
    return error


def at(point: Point, column: str) -> float:
    """Return a point's number in a column. Raise Unanswerable if it has none."""
    value = point.at(column)
    if value is None:
        raise Unanswerable(
            f"The claim needs a number in {column}, but a point of the arm {point.arm} has none; "
            "leave the claim out."
        )
    return value


def curves(column: str, given: Collection[Point]) -> dict[float, list[Point]]:
    """Group the points by their number in a column, in ascending order."""
    found: dict[float, list[Point]] = defaultdict(list)
    for point in given:
        found[at(point, column)].append(point)
    return dict(sorted(found.items()))


def over(one: Point, other: Point, words: str, above: float = 0.0) -> Contrast:
    """Return the contrast of two points. It is above 0 if `one` is better than `other`.

    `above` is the threshold that the difference must exceed (see `Contrast`).
    """
    return replace(over_pairs([(one, other)], words), above=above)


def over_pairs(pairs: Sequence[tuple[Point, Point]], words: str) -> Contrast:
    """Return the contrast that averages the difference "first minus second" over pairs.

    It is above 0 if the first points are better on average. `words` describes the contrast.
    """
    share = 1 / len(pairs)
    weights: list[tuple[float, Point]] = []
    for one, other in pairs:
        weights += [(share, one), (-share, other)]
    return Contrast(words, weights)


def trend(curve: Sequence[Point], column: str, words: str) -> Contrast:
    """Return a contrast that is above 0 if the points of a curve get better as a column grows.

    A straight line is fitted to the points' means over the logarithm of the column. The contrast is
    the rise of the line from the first point to the last.
    """
    weights = slopes([at(point, column) for point in curve], f"values of {column}")
    return Contrast(words, list(zip(weights, curve, strict=True)))


def ahead(design: Design, arm: str, rival: str, equal: str) -> Contrast:
    """Return the mean of an arm minus the mean of its rival, each over all points of the arm.

    Raise Unanswerable if the points differ by more than 1 % in the column `equal`.
    """
    ours, theirs = design.of(arm), design.of(rival)
    error = check_equal([*ours, *theirs], equal, f"Points of {arm} and {rival}")
    weights = [(1 / len(ours), point) for point in ours]
    weights += [(-1 / len(theirs), point) for point in theirs]
    return Contrast(f"{arm} over {rival} at {equal_within(equal, error)}", weights)


def equal_within(column: str, error: float) -> str:
    """Return "equal LABEL", or "LABEL equal within ERROR %" if the relative error is above 0."""
    if not error:
        return f"equal {label(column)}"
    return f"{label(column)} equal within {math.ceil(error * 1e4) / 100:g} %"


def larger_heads_gain_more(design: Design, arm: str, rival: str) -> Contrast:
    """Return a contrast of two slopes over head size: that of an arm, minus that of its rival.

    The contrast is above 0 if the arm improves more than the rival from small to large heads. Each
    line is fitted to the head sizes that both arms have (see `slopes`). Raise Unanswerable if the
    points differ in width.
    """
    width, *others = {at(point, "width") for point in design.of(arm, rival)}
    if others:
        raise Unanswerable(
            f"Points of {arm} and {rival} differ in width (heads x head size), but the claim "
            "needs equal widths; choose heads and head sizes with the same product at every point."
        )
    curves = [numbered("model.head_size", design.of(own)) for own in (arm, rival)]
    sizes, weights = trends_apart(curves, "head sizes that both arms have")
    heads = f"from heads of {sizes[0]:.0f} to {sizes[-1]:.0f} at width {width:g}"
    return Contrast(f"{heads} for {arm}, and not for {rival},", weights)


def trends_apart(
    curves: Sequence[Mapping[float, Point]],
    needed: str,
    shares: Sequence[float] = (1, -1),
) -> tuple[list[float], Weights]:
    """Return weights of points, so that the weighted sum of means compares the slopes of curves.

    The sum is the difference between the slopes of two curves, or another weighted sum of slopes.
    Each slope is fitted over the values of a column that all curves have.

    Args:
        curves: the points of each curve, by their value of the column.
        needed: a plural noun for the shared values, for the message of Unanswerable.
        shares: the weight of each slope. By default, the second slope is subtracted from the first.

    Returns:
        The shared values of the column, and the weights of the curves' points.

    Raises:
        Unanswerable: the curves share fewer than two values.
    """
    shared = sorted(set.intersection(*(set(curve) for curve in curves)))
    along = slopes(shared, needed)
    return shared, [
        (share * slope, curve[value])
        for share, curve in zip(shares, curves, strict=True)
        for value, slope in zip(shared, along, strict=True)
    ]


def slopes(sizes: Sequence[float], needed: str) -> list[float]:
    """Return a weight for each size, so that the weighted sum of the means at the sizes is a slope.

    The slope is the rise of a straight line from the first size to the last. The line is fitted to
    the means over log size.

    Args:
        sizes: the sizes, in ascending order.
        needed: a plural noun for the sizes, such as "head sizes", for the message of Unanswerable.

    Raises:
        Unanswerable: there are fewer than two sizes.
    """
    if len(sizes) < 2:
        raise Unanswerable(
            f"The claim needs at least two {needed}; add them to the experiment's grid."
        )
    logs = np.log(np.asarray(sizes, dtype=np.float64))
    centred = logs - logs.mean()
    weights: list[float] = (
        centred * (logs[-1] - logs[0]) / (centred**2).sum()
    ).tolist()
    return weights


def gain_grows(
    grid: Mapping[float, Mapping[float, Point]], needed: str, words: str
) -> Contrast:
    """Return the contrast that is above 0 if two factors interact positively.

    For example, larger heads (the inner factor) gain more if sequences are longer (the outer
    factor). At each value of the outer factor, a slope over the inner factor is fitted to the
    means. The contrast is the slope of these slopes over the outer factor.

    Args:
        grid: {outer value: {inner value: point}}, with outer values in ascending order.
        needed: a plural noun for both factors. The message of Unanswerable has "at least two
            {needed}".
        words: a format string for `Contrast.words`. Its four fields are the first and the last
            inner value, then the last and the first outer value.

    Raises:
        Unanswerable: a factor has fewer than two values.
    """
    outer = list(grid)
    across = slopes(outer, needed)
    inner, weights = trends_apart(list(grid.values()), needed, across)
    return Contrast(words.format(inner[0], inner[-1], outer[-1], outer[0]), weights)


def keeps_improving(curve: Collection[Point], column: str, several: str) -> Statement:
    """Return the statement that points get better as a column grows, also in its upper half alone.

    `several` is a plural noun for the values of the column, such as "heads". Raise Unanswerable if
    there are fewer than three points, or if they differ in another size.
    """
    if len(curve) < 3:
        raise Unanswerable(
            f"The claim needs at least three values of {column}, not {len(curve)}; add values to "
            "the experiment's grid."
        )
    ordered = list(alone(column, curve).values())
    upper = ordered[(len(ordered) - 1) // 2 :]
    low, middle, high = (
        f"{at(point, column):.0f}" for point in (ordered[0], upper[0], ordered[-1])
    )
    whole = trend(ordered, column, f"from {low} to {high} {several}")
    later = trend(upper, column, f"still from {middle} to {high}")
    return All([whole, later])


def most_heads_lose(
    found: Sequence[tuple[str, Sequence[Point]]], shared: str
) -> Statement:
    """Return the statement that in every group, some point beats the one with the most heads.

    Groups with a single point are not used.

    Args:
        found: a description of each group, such as "width 64", and its points.
        shared: the names of the sizes that are equal within a group, for messages.

    Raises:
        Unanswerable: every group has a single point, or two points of a group have equally many
            heads.
    """
    parts: list[Statement] = []
    unused = 0
    for where, points in found:
        *fewer, most = by("model.heads", points)
        if not fewer:
            unused += 1
            continue
        heads = f"{at(most, 'model.heads'):.0f} at {where}"
        better = [over(p, most, f"{_heads(p)} over {heads}") for p in fewer]
        parts.append(AnyOf(better))
    if not parts:
        raise Unanswerable(
            f"No two points with different numbers of heads have equal {shared}; add such "
            "points to the experiment's grid."
        )
    return All(parts, not_used(unused, f"no other point has equal {shared}"))


def _heads(point: Point) -> str:
    return plural(int(at(point, "model.heads")), "head")


def not_used(points: int, why: str) -> str:
    """Return a sentence that says how many points a claim does not use; "" if it uses all."""
    return f"Not used: {plural(points, 'point')}, because {why}." if points else ""


def read_at(curve: Collection[Point], size: float) -> list[tuple[float, Point]]:
    """Return weights of two points that interpolate a curve at a number of parameters.

    The interpolation is linear in the logarithm of this number.

    Args:
        curve: the points of the curve.
        size: the number of parameters.

    Raises:
        Unanswerable: the curve has no points on both sides of `size`.
    """
    ordered = by("params_total", curve)
    for left, right in pairwise(ordered):
        low, high = at(left, "params_total"), at(right, "params_total")
        if low <= size <= high and low < high:
            share = math.log(size / low) / math.log(high / low)
            return [(1 - share, left), (share, right)]
    raise Unanswerable(
        "The arms cannot be compared at equal sizes, since the ranges of their parameter counts do "
        "not overlap; choose sizes so that they do."
    )


def collapses_at(
    curve: Collection[Point], length: int, expected: int
) -> list[Contrast]:
    """Return the contrasts for a collapse of the error at head size `expected`.

    From head size `expected` - 1 to `expected`, the error must fall by more than a factor of ten.
    From each smaller size to the next, it must fall by less than this factor.

    Args:
        curve: the points of different head sizes at one sequence length.
        length: the sequence length.
        expected: the head size.
    """
    by_size = numbered("model.head_size", curve)
    sizes = range(min(round(min(by_size)), expected - 1), expected + 1)
    untried = [size for size in sizes if size not in by_size]
    if untried:
        raise Unanswerable(
            f"The claim needs every head size from {sizes[0]} to {expected} for sequence length "
            f"{length}, but {untried[0]} is missing; add it to the experiment's grid."
        )

    def fall(better: int, worse: int, above: float) -> Contrast:
        words = f"heads of {better} over {worse} for n = {length}"
        return over(by_size[better], by_size[worse], words, above)

    ten = math.log(10)
    earlier = [fall(size - 1, size, -ten) for size in sizes[1:-1]]
    return [fall(expected, expected - 1, ten), *earlier]
