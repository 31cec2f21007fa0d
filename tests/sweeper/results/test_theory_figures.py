"""The figures of the theory: knees where they are, and re-parametrised runs beside the trained."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from sweeper.named import named
from sweeper.results import figures
from tests.sweeper.results.contexts import theorem1
from tests.sweeper.results.synthetic import Model, Sweep


def words(figure: Figure) -> str:
    """All text of a figure."""
    figure.draw_without_rendering()
    return " ".join(text.get_text() for text in figure.findobj(Text))


def test_every_knee_is_marked_with_its_head_size(tmp_path: Path) -> None:
    figure = named(figures, "theorem1", "draw", "figure")(theorem1().table(tmp_path))
    for axes, knees in zip(figure.axes, ({5: 4, 7: 6}, {5: 2, 7: 3}), strict=True):
        rings = {line.get_xdata()[0] for line in axes.get_lines() if line.get_markersize() == 9.0}
        assert rings == {head_size / n for n, head_size in knees.items()}
        guides = [text.get_text() for text in axes.texts]
        assert {"n", "n / 2"} <= set(guides)


def test_a_reparametrised_run_stands_beside_the_one_it_was(tmp_path: Path) -> None:
    sweep = Sweep(name="shared", figure="collaborative", metric="test/accuracy", claims=())
    sweep.labels = {"trained": "MNLI", "shared": "shared"}
    sweep.add("trained", {}, Model(64, 4, 16), {0: 0.5, 1: 0.6})
    for size in (8, 16, 32):
        values = {"model.attention.shared_size": size}
        sweep.add("shared", values, Model(64, 7, size), {0: size / 100, 1: size / 90})
    table = sweep.table(tmp_path)
    arms = {"trained": {"label": "MNLI"}, "shared": {"label": "shared", "parent": "trained"}}
    saved = [{**row, "params_attention_saved": 0.25} for row in table.rows]
    about = {**table.experiment, "arms": arms}
    draw = named(figures, "collaborative", "draw", "figure")
    figure = draw(replace(table, experiment=about, rows=saved))
    axes, *_ = figure.axes
    levels = [line.get_ydata()[0] for line in axes.get_lines() if len(set(line.get_ydata())) == 1]
    assert pytest.approx(55.0) in levels
    curve = axes.get_lines()[0]
    assert list(curve.get_xdata()) == [8, 16, 32]
    assert curve.get_ydata()[2] == pytest.approx(100 * (0.32 + 32 / 90) / 2)
    assert "25%" in words(figure)
