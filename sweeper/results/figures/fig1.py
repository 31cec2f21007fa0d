"""Figure 1: the standard heuristic against heads of a fixed size, over five measures of size.

Above, as in the paper: (a) total parameters, (b) embedding size. Below, the same points over
(c) non-embedding parameters, (d) training FLOPs, (e) heads times head size.
"""

from collections.abc import Iterable

from matplotlib.figure import Figure

from sweeper.results import panel
from sweeper.results.points import (
    Point,
    bent,
    guides,
    points,
    range_in_words,
    seed_spread,
)
from sweeper.results.table import Table

TOP = ("params_total", "model.embedding_size")
BOTTOM = ("params_non_embedding", "flops_per_token", "width")
STANDARD, FIXED, MATCHED = "standard", "fixed", "matched"
_TOP_PT, _BOTTOM_PT = 168.0, 122.0  # height of a row, axis labels included


def series_of(every: Iterable[Point]) -> list[panel.Series]:
    """Return a series for each number of heads of the standard arm, and one for each other arm."""

    def heads(point: Point) -> float | None:
        return point.at("model.heads") if point.arm == STANDARD else None

    found = panel.split(every, by=heads)
    order = {STANDARD: 0, FIXED: 2, MATCHED: 3}
    return sorted(found, key=lambda one: (order.get(one.arm, 1), one.key or 0.0))


def draw(table: Table) -> Figure:
    """Draw the arms that the table has, these three or others."""
    everything, back = bent(points(table, table.metric), table.metric)
    spread = seed_spread(everything)
    series = series_of(everything)
    looks = panel.curve_looks(
        table.experiment["arms"], [(one.arm, one.key) for one in series]
    )
    drawn = [(one, looks[one.arm, one.key]) for one in series]
    figure = Figure(figsize=(panel.DOUBLE_COLUMN, panel.DOUBLE_COLUMN))
    above, below = figure.subfigures(
        2, 1, squeeze=False, height_ratios=(_TOP_PT, _BOTTOM_PT)
    ).flat
    panels = dict(zip(TOP, above.subplots(1, 2), strict=True))
    panels |= dict(zip(BOTTOM, below.subplots(1, 3), strict=True))
    lines = guides(table)
    for (x, axes), letter in zip(panels.items(), "abcde", strict=True):
        curves = [
            (look, panel.marks(one.points, x, spread, back)) for one, look in drawn
        ]
        panel.fill(
            axes, x, table.metric, curves, letter=letter, own=x == TOP[1], guides=lines
        )
        axes.label_outer()  # all panels have the same height axis
        if x == TOP[0]:
            ends = [
                (_heads([curve[-1].point]), look.colour, curve[-1])
                for one, (look, curve) in zip(series, curves, strict=True)
                if curve and one.arm == STANDARD
            ]
            direct = panel.label_ends(axes, ends)
    legend: list[panel.Entry] = []
    shades = [look for one, look in drawn if one.arm == STANDARD]
    if direct and shades:  # one entry, as each curve has its number of heads beside it
        chosen = dict.fromkeys([shades[0], shades[len(shades) // 2], shades[-1]])
        handles = tuple(look.handle() for look in chosen)
        legend.append((handles, panel.plain(table.label(STANDARD))))
    for one, look in drawn:
        if one.arm != STANDARD or not direct:
            name = panel.plain(table.label(one.arm))
            heads = _heads(one.points) if one.arm in (STANDARD, FIXED) else ""
            legend.append(((look.handle(),), f"{name}, {heads}" if heads else name))
    notes = panel.notes_on(table, everything, spread)
    panel.lay_out(figure, _TOP_PT + _BOTTOM_PT, table, legend, notes)
    return figure


def _heads(points: Iterable[Point]) -> str:
    counts = [
        int(heads) for point in points if (heads := point.at("model.heads")) is not None
    ]
    return f"{range_in_words(counts)} heads" if counts else ""
