"""Figures show every seed and say what is missing, mixed or not learned."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.text import Text

from sweeper.results.figures import attention, collaborative, curves, fig1, fig2
from sweeper.results.figures import sequence_length as lengths_figure
from sweeper.results.figures import theorem1 as knees_figure
from sweeper.results.panel import apart, marks, plain
from sweeper.results.points import points, seed_spread
from sweeper.results.statistics.estimates import estimate, interval
from tests.sweeper.results.finetuned import MODELS, Finetuned, score
from tests.sweeper.results.grids import FEW, PAPER, Grid, by_hand, figure1, theorem1
from tests.sweeper.results.synthetic import METRIC, Model, Sweep, paper

HOSTILE = "$\\foo$ _{x} <script>alert(1)</script>\x1b[31m\n\u202e=cmd() \U0001f600 日本 \0" * 7


def half(arm: str, model: Model, seed: int) -> bool:
    return (model.heads + model.embedding_size // 32 + seed) % 2 == 0


def hostile() -> Sweep:
    sweep = figure1()
    sweep.title = HOSTILE
    sweep.labels = {arm: HOSTILE + arm for arm in sweep.labels}
    return sweep


def texts(figure: Figure) -> list[Text]:
    """All text that can be seen."""
    figure.draw_without_rendering()
    found = [text for text in figure.findobj(Text) if text.get_visible()]
    return [text for text in found if text.get_text().strip() and text.get_window_extent().width]


def words(figure: Figure) -> str:
    return " ".join(text.get_text() for text in texts(figure))


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


@pytest.mark.parametrize(
    ("column", "told"),
    [
        ("code", "Runs of 2 versions of the program: of 0, of 1."),
        ("device", "Runs on 2 kinds of device: of 0, of 1."),
    ],
)
def test_runs_of_two_kinds_are_not_mixed_silently(tmp_path, column, told):
    table = figure1(grid=FEW).table(tmp_path)
    rows = [{**row, column: f"of {row['seed'] % 2}"} for row in table.rows]
    columns = [*dict.fromkeys([*table.columns, column])]
    mixed = replace(table, provenance={}, columns=columns, rows=rows)
    assert told in words(fig1.draw(mixed))
    assert told[:12] not in words(fig1.draw(table))


def test_heads_stand_beside_the_lines_or_else_in_the_legend(tmp_path):
    beside = words(fig1.draw(figure1().table(tmp_path / "beside")))
    assert "16 heads" in beside
    assert "head size d/h, 16 heads" not in beside
    # At the largest embedding size one line has no point, so it ends far from the edge.
    grid = Grid((64, 96, 128, 160), (2, 4, 8, 16, 32, 64))
    legend = words(fig1.draw(figure1(grid=grid).table(tmp_path / "legend")))
    assert "head size d/h, 64 heads" in legend


def test_text_is_one_short_line_of_letters_that_the_font_has():
    assert plain("a\nb\x1b\u202e日", 10) == "a?b???"
    assert len(plain("x" * 300)) == 48
    assert plain("head size d/h × 2…") == "head size d/h × 2…"


def test_curves_run_along_the_first_key_that_was_typed(tmp_path):
    table = by_hand({"model.heads": [2, 3, 5], "model.head_size": [7, None]}).table(tmp_path)
    series = curves.series_of(table, "model.heads")
    assert [one.key for one in series] == [(("model.head_size", 7),), (("model.head_size", None),)]
    assert [point.settings["model.heads"] for point in series[0].points] == [2, 3, 5]


def test_standard_models_are_a_curve_for_each_number_of_heads(tmp_path):
    table = figure1().table(tmp_path)
    series = fig1.series_of(table)
    keys = [(one.arm, one.key) for one in series]
    standard = [("standard", heads) for heads in (2.0, 4.0, 8.0, 16.0)]
    assert keys == [*standard, ("fixed", None), ("matched", None)]
    found = marks(series[0].points, lambda point: point.at("params_total"), None)
    assert [mark.x for mark in found] == sorted(
        Model(d, 2, d // 2).size["params_total"] for d in (64, 96, 128)
    )
    assert [mark.mean for mark in found] == pytest.approx(
        [paper(Model(d, 2, d // 2)) for d in (64, 96, 128)], rel=0.03
    )


APART = {
    "nothing to do": ([0.1, 0.3, 0.5], [0.1, 0.3, 0.5]),
    "a pair": ([0.3, 0.31], [0.3, 0.4]),
    "at the lower edge": ([-0.1, 0.01, 0.02], [0.0, 0.1, 0.2]),
    "at the upper edge": ([0.99, 0.5, 0.98], [1.0, 0.5, 0.9]),
    "clusters that meet": ([0.4, 0.41, 0.52, 0.53], [0.4, 0.5, 0.6, 0.7]),
}


@pytest.mark.parametrize(("wanted", "placed"), APART.values(), ids=APART.keys())
def test_labels_stand_apart_in_the_order_of_their_lines(wanted, placed):
    assert apart(wanted, 0.1) == pytest.approx(placed)


def test_keys_that_move_together_are_one_curve(tmp_path):
    sweep = by_hand({"model.layers": [1]})
    sweep.points.clear()
    for d, heads in ((32, 2), (48, 3), (64, 4)):
        values = {"model.embedding_size": d, "model.heads": heads}
        sweep.add("grid", values, Model(d, heads, 16), {0: 43.0 - heads})
    [one] = curves.series_of(sweep.table(tmp_path), "params_total")
    assert [point.at("model.heads") for point in one.points] == [2, 3, 4]
    assert one.key == ()


def test_a_key_with_one_value_still_tells_what_a_curve_is(tmp_path):
    table = by_hand({"model.heads": [2, 3], "model.head_size": [7]}).table(tmp_path)
    [one] = curves.series_of(table, "model.heads")
    assert one.key == (("model.head_size", 7),)


def test_a_point_that_varies_nothing_has_no_words(tmp_path):
    sweep = by_hand({"model.layers": [1]})
    sweep.points.clear()
    sweep.add("grid", {}, Model(64, 2, 16), {0: 43.0, 1: 44.0})
    [one] = points(sweep.table(tmp_path), sweep.metric)
    assert one.name == ""
    assert one.values == {0: 43.0, 1: 44.0}


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
