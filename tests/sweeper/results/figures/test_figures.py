"""Figures show every seed and say what is missing, mixed or not learned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.collections import LineCollection

from sweeper.results.figures import curves, fig1, fig2
from sweeper.results.points import points, seed_spread
from sweeper.results.statistics.estimates import estimate, interval
from sweeper.results.table import Table
from tests.sweeper.results.figures.shown import half, texts, words
from tests.sweeper.results.finetuned import MODELS, Finetuned, score
from tests.sweeper.results.grids import FEW, PAPER, Grid, by_hand, figure1
from tests.sweeper.results.synthetic import METRIC


def test_every_seed_and_every_mean_is_drawn(tmp_path):
    table = figure1(grid=PAPER, done=half).table(tmp_path)
    found = points(table, METRIC)
    spread = seed_spread(found)
    figure = fig1.draw(table)
    for axes, column in zip(figure.axes, (*fig1.TOP, *fig1.BOTTOM), strict=True):
        drawn = {
            (float(x), float(y))
            for line in axes.get_lines()
            for x, y in np.column_stack(line.get_data())
        }
        ends = {
            tuple(map(tuple, segment.tolist()))
            for lines in axes.collections
            if isinstance(lines, LineCollection)
            for segment in lines.get_segments()
        }
        for point in found:
            values = list(point.values.values())
            if values:
                x = float(point.cells[column])
                known = estimate(values, spread)
                low, high = interval(known) or (0.0, 0.0)
                assert (x, known.mean) in drawn
                assert ((x, low), (x, high)) in ends
                assert {(x, value) for value in values if len(values) > 1} <= drawn


def test_fine_tuned_models_have_a_panel_a_metric_with_every_seed(tmp_path):
    figure = fig2.draw(Finetuned("fig2", seeds=3).table(tmp_path))
    shown = (("test/f1", 1), ("test/exact_match", 1), ("test/accuracy", 100))
    for axes, (metric, times) in zip(figure.axes, shown, strict=True):
        drawn = np.concatenate([np.column_stack(line.get_data()) for line in axes.get_lines()])
        for model in MODELS.values():
            for seed in range(3):
                wanted = (model.size["params_total"], times * score(metric, model, seed))
                assert np.isclose(drawn.astype(float), wanted, rtol=1e-12).all(axis=1).any()


def test_baselines_are_marks_outside_the_panel_that_cross_no_line(tmp_path):
    figure = fig2.draw(Finetuned("fig2").table(tmp_path))
    marks = [line for line in figure.axes[2].get_lines() if line.get_marker() == "<"]
    assert [float(line.get_ydata()[0]) for line in marks] == pytest.approx([35.3, 38.1])
    assert all(line.get_xdata()[0] > 1 for line in marks)  # of the width of the panel
    assert not figure.axes[2].texts
    assert {"majority class", "bag of words"} <= {t.get_text() for t in texts(figure)}


def test_scales_are_logarithmic_from_a_factor_of_ten_and_say_so(tmp_path):
    table = by_hand({"model.heads": [*range(2, 20)]}).table(tmp_path / "linear")
    assert curves.draw(table).axes[0].get_xlabel() == "heads"
    axes = curves.draw(by_hand({"model.heads": [*range(2, 21)]}).table(tmp_path / "log")).axes[0]
    assert (axes.get_xscale(), axes.get_xlabel()) == ("log", "heads (log)")
    for values, scale in (([2, 4, 8, 16], "log"), ([2, 4, 8, 12], "linear"), ([2, 4, 8], "linear")):
        table = by_hand({"model.dropout": values}).table(tmp_path / str(values))
        assert curves.draw(table).axes[0].get_xscale() == scale


def test_a_grid_typed_by_hand_has_a_title_and_its_fixed_overrides(tmp_path):
    table = by_hand({"model.heads": [2, 3]}).table(tmp_path)
    typed = "model.heads=2,3 trainer.steps=50 trainer.threads=2 paths.outputs=x name=y seed=1"
    told = words(curves.draw(replace(table, provenance={"command": ["sweep.py", *typed.split()]})))
    assert "Test perplexity per subword by heads" in told
    assert "With trainer.steps=50." in told


def test_a_setting_that_was_not_learned_is_named(tmp_path):
    table = Finetuned("fig2").table(tmp_path)
    chance = {**table.rows[-1], "test/accuracy": 0.3531}
    told = words(fig2.draw(replace(table, rows=[*table.rows[:-1], chance]))).replace("\n", " ")
    assert "MNLI accuracy (%) not learned, about that of the majority class" in told
    assert "heads=32 (1 of 2 seeds)." in told
    assert "not learned" not in words(fig2.draw(table))


def test_a_baseline_far_below_the_curves_is_told_not_drawn(tmp_path):
    table = Finetuned("fig2").table(tmp_path)
    rows = [
        {**row, "test/majority_accuracy": 0.01 if row["task"] == "mnli" else None}
        for row in table.rows
    ]
    figure = fig2.draw(replace(table, rows=rows))
    assert "majority class" not in {text.get_text() for text in texts(figure)}
    assert "Outside panel (c): majority class 1.0." in words(figure)


def test_missing_runs_and_matching_errors_are_in_the_figure(tmp_path):
    sweep = figure1(done=lambda arm, model, seed: (arm, seed) != ("fixed", 1))
    figure = fig1.draw(sweep.table(tmp_path))
    runs, missing = len(sweep.records), len(sweep.records) - len(sweep.results)
    assert missing
    assert f"{missing} of {runs} runs are missing: {missing} not started." in words(figure)
    worst = max(abs(p["matched"]["error"]) for p in sweep.points if p["matched"])
    assert f"total parameters of what they are matched to within {worst:.2%}" in words(figure)
    assert "Mean of 2 to 3 seeds, 95 % interval" in words(figure)


def test_one_seed_has_no_interval_and_the_figure_says_so(tmp_path):
    figure = fig1.draw(figure1(grid=FEW, seeds=1).table(tmp_path))
    assert "there is no interval" in words(figure)
    for axes in figure.axes:
        for lines in axes.collections:
            assert isinstance(lines, LineCollection)
            assert not lines.get_segments()


def test_runs_of_two_versions_of_the_program_are_not_mixed_silently(tmp_path):
    table = figure1(grid=FEW).table(tmp_path)
    rows = [{**row, "code": f"commit{row['seed'] % 2}"} for row in table.rows]
    mixed = Table(table.name, table.experiment, {}, table.settings, [*table.columns, "code"], rows)
    assert "Runs of 2 versions of the program: commit0, commit1." in words(fig1.draw(mixed))


def test_points_of_different_devices_are_not_compared_silently(tmp_path):
    table = figure1(grid=FEW).table(tmp_path)
    rows = [{**row, "device": f"card {row['seed'] % 2}"} for row in table.rows]
    columns = [*dict.fromkeys([*table.columns, "device"])]
    mixed = Table(table.name, table.experiment, {}, table.settings, columns, rows)
    assert "Runs on 2 kinds of device: card 0, card 1." in words(fig1.draw(mixed))
    assert "kinds of device" not in words(fig1.draw(table))


def test_heads_stand_beside_the_lines_or_else_in_the_legend(tmp_path):
    beside = words(fig1.draw(figure1().table(tmp_path / "beside")))
    assert "16 heads" in beside
    assert "head size d/h, 16 heads" not in beside
    # At the largest embedding size one line has no point, so it ends far from the edge.
    grid = Grid((64, 96, 128, 160), (2, 4, 8, 16, 32, 64))
    legend = words(fig1.draw(figure1(grid=grid).table(tmp_path / "legend")))
    assert "head size d/h, 64 heads" in legend
