"""Re-parametrised runs: their metric over the shared key/query size.

Each panel shows an arm that starts from another arm, whose mean is the dashed line. The numbers
above a panel are the saved shares of the attention parameters.
"""

from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from sweeper.results import panel
from sweeper.results.points import Measure, metric_of, seed_spread
from sweeper.results.table import Table

X = "model.attention.shared_size"
_PANEL_PT = 165.0
_BEFORE: dict[str, Any] = {
    "color": panel.FAINT_INK,
    "linewidth": 0.9,
    "linestyle": (0, (4, 2)),
}


def draw(table: Table) -> Figure:
    """Draw a table with arms that start from others and vary the shared size."""
    known = table.experiment["arms"]
    measured = {arm: Measure("", metric_of(table, arm)) for arm in known}
    found = {
        arm: [p for p in measured[arm].points(table) if p.arm == arm] for arm in known
    }
    arms = {
        arm: about["parent"]
        for arm, about in known.items()
        if about.get("parent") and any(p.at(X) for p in found[arm])
    }
    spreads = {
        arm: seed_spread([*found[arm], *found[parent]]) for arm, parent in arms.items()
    }
    every = [point for own in found.values() for point in own]
    notes = panel.notes_on(table, every, *spreads.values())
    looks = {arm: panel.looks_of(known)[arm] for arm in arms}
    figure = Figure(figsize=(panel.DOUBLE_COLUMN, panel.DOUBLE_COLUMN))
    panels = figure.subplots(1, max(1, len(arms)), squeeze=False)[0]
    for axes, letter, (arm, parent) in zip(
        panels, "abcdef", arms.items(), strict=False
    ):
        measure, words = measured[arm], panel.plain(table.label(parent))
        curve = panel.marks(found[arm], X, spreads[arm])
        before = panel.marks(found[parent], lambda _: 0.0, spreads[arm])
        held = (
            [*curve, *(replace(mark, x=curve[0].x) for mark in before)] if curve else []
        )
        drawn = [(looks[arm], curve)]
        panel.fill(axes, X, measure.words, drawn, letter=letter, own=True, scaled=held)
        axes.set_title(panel.plain(words, 16), pad=14)
        for mark in before:
            axes.axhline(mark.mean, zorder=2, **_BEFORE)
        saved = [(mark.x, mark.point.at("params_attention_saved")) for mark in curve]
        shares = [(x, f"{share:.0%}") for x, share in saved if share is not None]
        if shares:
            above = axes.secondary_xaxis("top")
            above.set_xticks(
                *zip(*shares, strict=True),
                fontsize=panel.SMALL_PT,
                color=panel.FAINT_INK,
            )
            above.xaxis.set_minor_locator(NullLocator())
            above.spines["top"].set_visible(False)
            above.tick_params(length=0, pad=0)
        scores = [
            f"{name} {value:.1f}" for name, value in measure.baselines(table).items()
        ]
        notes += [f"{words} of baselines: {', '.join(scores)}."] if scores else []
    if not arms:
        panel.fill(panels[0], X, table.metric, [])
    after = "re-parametrised; above: attention parameters saved"
    legend = [
        *([(tuple(look.handle() for look in looks.values()), after)] if looks else []),
        ((Line2D([], [], **_BEFORE),), "as trained"),
    ]
    panel.lay_out(figure, _PANEL_PT, table, legend, notes)
    return figure
