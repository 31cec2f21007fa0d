"""The metric over the shared key/query size, for runs with re-parametrised attention.

Each panel shows an arm whose runs start from those of another arm. The dashed line is the mean of
that other arm. The percentages above a panel are the shares of attention parameters that
re-parametrisation saves.
"""

from matplotlib.figure import Figure

from sweeper.results import layout, panel
from sweeper.results.points import metric_of, points
from sweeper.results.table import Table

X = "model.attention.shared_size"


def draw(table: Table) -> Figure:
    """Draw a table with arms that start from other arms and vary the shared key/query size."""
    arms = table.experiment["arms"]
    drawn: dict[str, panel.Curves] = {}
    for arm, about in arms.items():
        metric, parent = metric_of(table, arm), about.get("parent")
        found = [p for p in points(table, metric) if p.arm in (arm, parent)]
        if parent and any(point.at(X) for point in found):
            drawn[arm] = panel.Curves(table, found, metric)
    # If no arm starts from another arm, draw an empty panel.
    drawn = drawn or {"": panel.Curves(table, [])}

    figure, panels = layout.panels(len(drawn))
    own: list[panel.Curve] = []
    for axes, (arm, curves) in zip(panels, drawn.items(), strict=True):
        own += curves.of(arm)
        [marks] = curves.draw(axes, X, curves.of(arm)) or [[]]
        parent = arms.get(arm, {}).get("parent", "")
        axes.set_title(layout.plain(table.label(parent), 16), pad=14)
        for before in curves.of(parent):
            for mark in curves.marks(before, lambda point: 0.0):
                axes.axhline(mark.mean, zorder=2, **panel.GUIDE)

        for mark in marks:
            saved = mark.point.at("params_attention_saved")
            if saved is not None:
                above = axes.get_xaxis_transform()
                axes.text(mark.x, 1.01, f"{saved:.0%}", transform=above, **layout.FAINT)

    words = "re-parametrised; above: attention weights saved"
    legend = panel.legend_by(own, lambda curve: words)
    legend.append(panel.sample("before re-parametrisation", **panel.GUIDE))
    return panel.finish(figure, 165, legend, *drawn.values())
