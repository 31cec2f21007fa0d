"""Scales and ticks that can be read: few round numbers, or the values themselves where they fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from matplotlib.axis import XAxis, YAxis
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from sweeper.results.figures.layout.style import SMALL_PT, text_width
from sweeper.store.numbers import short

# From this ratio of the largest to the smallest value on, a scale is logarithmic.
LOGARITHMIC_FROM = 3.0
_MARGIN = 0.06  # of the span of the values, on either side
_MANTISSAS = (
    (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9),
    (1, 1.5, 2, 3, 5, 7),
    (1, 2, 5),
    (1, 3),
    (1,),
)


def set_scale(
    axis: XAxis | YAxis, values: Sequence[float], room: float, *, own: bool = False
) -> None:
    """Gives `axis` the scale, limits and ticks for `values`.

    `room` is the length of the axis in points. With `own` the ticks stand at the values themselves
    where there are few of them.
    """
    low, high = min(values), max(values)
    logarithmic = low > 0 and high / low >= LOGARITHMIC_FROM
    forward: Callable[[float], float] = math.log if logarithmic else float
    start, end = forward(low), forward(high)
    # All values equal: any span will do that keeps them in the middle.
    margin = (end - start) * _MARGIN or max(abs(end) * 0.1, 0.1)
    start, end = start - margin, end + margin
    backward: Callable[[float], float] = math.exp if logarithmic else float
    vertical = axis.axis_name == "y"

    def fits(ticks: Sequence[float]) -> bool:
        places = [(forward(tick) - start) / (end - start) * room for tick in ticks]
        sizes = [SMALL_PT if vertical else text_width(short(tick), SMALL_PT) for tick in ticks]
        gap = SMALL_PT * (0.8 if vertical else 0.6)
        pairs = zip(places, sizes, places[1:], sizes[1:], strict=False)
        return all(b - a >= (s + t) / 2 + gap for a, s, b, t in pairs)

    inside = (backward(start), backward(end))
    choices = _logarithmic(*inside) if logarithmic else _linear(*inside)
    if own:
        choices = [_thinned(sorted(set(values)), fits), *choices]
    enough = 2 if high > low or not own else 1
    ticks = next((ticks for ticks in choices if len(ticks) >= enough and fits(ticks)), [low])
    axis.axes.set(**{f"{axis.axis_name}scale": "log" if logarithmic else "linear"})
    axis.axes.set(**{f"{axis.axis_name}lim": inside})
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))


def _logarithmic(low: float, high: float) -> list[list[float]]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    choices = []
    for mantissas in _MANTISSAS:
        ticks = [mantissa * 10.0**decade for decade in decades for mantissa in mantissas]
        # More than a handful is hard to read, however much room there is.
        inside = [tick for tick in ticks if low <= tick <= high]
        if len(inside) <= 7:
            choices.append(inside)
    thin = [10.0**decade for decade in decades if low <= 10.0**decade <= high]
    return [*choices, thin[:: max(1, len(thin) // 4)]]


def _linear(low: float, high: float) -> list[list[float]]:
    choices = []
    for count in (6, 5, 4, 3, 2, 1):
        found = MaxNLocator(count, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
        choices.append([float(tick) for tick in found if low <= tick <= high])
    return choices


def _thinned(values: list[float], fits: Callable[[Sequence[float]], bool]) -> list[float]:
    """The values, less those whose labels would touch; none where few would be left of many."""
    if len(values) > 12:
        return []
    kept: list[float] = []
    for value in values:
        if not kept or fits([kept[-1], value]):
            kept.append(value)
    return kept
