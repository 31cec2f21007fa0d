"""The figures of the theory: knees where they are, and re-parametrised runs beside the trained."""

from __future__ import annotations

from dataclasses import replace

import pytest
from matplotlib.text import Text

from sweeper.results.figures import attention, collaborative
from sweeper.results.figures import sequence_length as lengths_figure
from sweeper.results.figures import theorem1 as knees_figure
from tests.sweeper.results.figures.shown import words
from tests.sweeper.results.grids import theorem1
from tests.sweeper.results.synthetic import Model, Sweep


def test_every_knee_is_marked_with_its_head_size(tmp_path):
    figure = knees_figure.draw(theorem1().table(tmp_path))
    for axes, knees in zip(figure.axes, ({5: 4, 7: 6}, {5: 2, 7: 3}), strict=True):
        rings = {line.get_xdata()[0] for line in axes.get_lines() if line.get_markersize() == 9.0}
        assert rings == {head_size / n for n, head_size in knees.items()}
        guides = [text.get_text() for text in axes.texts]
        assert {"n", "n / 2"} <= set(guides)


def test_each_length_has_its_knees_above_what_smaller_heads_cost(tmp_path):
    sweep = Sweep(name="lengths", figure="sequence_length", metric="test/loss", claims=())
    sweep.labels = {"heads": "heads"}
    for length in (8, 32):
        for size in (2, 4, 16, 32):
            values = {"task.sequence_length": length, "model.head_size": size}
            measured = {seed: 5 - length / 16 + 0.25 / size + seed / 1024 for seed in (0, 2)}
            sweep.add("heads", values, Model(length, 4, size), measured)
    table = sweep.table(tmp_path)
    figure = lengths_figure.draw(table)
    axes, *_ = figure.axes
    placed = {
        (line.get_xdata()[0], line.get_ydata()[0])
        for line in axes.get_lines()
        if len(line.get_xdata()) == 1
    }
    assert placed == {(4, 1.02), (7, 1.06), (16, 1.02), (31, 1.06)}
    curves = [line.get_ydata() for line in axes.get_lines() if len(line.get_xdata()) == 4]
    assert len(curves) == 2
    for curve in curves:
        assert curve[-1] == pytest.approx(0, abs=1e-12)
    assert {"n = 8", "n = 32", "n / 2", "n - 1"} <= {
        text.get_text() for text in figure.findobj(Text)
    }


def test_a_reparametrised_run_stands_beside_the_one_it_was(tmp_path):
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
    draw = collaborative.draw
    figure = draw(replace(table, experiment=about, rows=saved))
    axes, *_ = figure.axes
    levels = [line.get_ydata()[0] for line in axes.get_lines() if len(set(line.get_ydata())) == 1]
    assert pytest.approx(55.0) in levels
    curve = axes.get_lines()[0]
    assert list(curve.get_xdata()) == [8, 16, 32]
    assert curve.get_ydata()[2] == pytest.approx(100 * (0.32 + 32 / 90) / 2)
    assert "25%" in words(figure)


def test_the_rank_of_heads_stands_beside_the_most_it_can_be(tmp_path):
    sweep = Sweep(name="ranks", figure="attention", metric="test/attention_rank", claims=())
    sweep.labels = {"sizes": "sizes"}
    for heads in (3, 5):
        for size in (2, 7, 13):
            values = {"model.heads": heads, "model.head_size": size}
            sweep.add("sizes", values, Model(64, heads, size), {0: 0.5 * size, 1: 0.7 * size})
    for result in sweep.results.values():
        result["metrics"]["test/attention_entropy"] = 1.1
    figure = attention.draw(sweep.table(tmp_path))
    ranks, entropies = figure.axes
    drawn = [(list(line.get_xdata()), list(line.get_ydata())) for line in ranks.get_lines()]
    [bound] = [xs for xs, ys in drawn if xs == ys]
    assert (bound[0], bound[-1]) == (2, 13)
    assert ([2, 7, 13], pytest.approx([0.6 * size for size in (2, 7, 13)])) in drawn
    assert all(set(line.get_ydata()) == {1.1} for line in entropies.get_lines())
    assert {"3 heads", "5 heads", "(a) the head size, the most it can be"} <= {
        text.get_text() for text in figure.findobj(Text)
    }
