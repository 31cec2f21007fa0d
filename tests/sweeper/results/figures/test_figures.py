"""Figures show every seed and say what is missing; their files are safe and the same again."""

import math
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, product
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.text import Text

from sweeper.results import panel
from sweeper.results.collect import collect
from sweeper.results.figures import curves, fig1, figure_of, write_figures
from sweeper.results.panel import COLUMN, DOUBLE_COLUMN, apart, marks
from sweeper.results.points import (
    Point,
    not_learned,
    points,
    seed_spread,
    standing,
    trigram_curve,
)
from sweeper.results.report.page import write_report
from sweeper.store.errors import Faults
from sweeper.store.registry import FIGURES, names
from tests.sweeper.results.finetuned import MODELS, Finetuned, score
from tests.sweeper.results.grids import FEW, PAPER, Grid, by_hand, figure1, theorem1
from tests.sweeper.results.report.reported import content_of
from tests.sweeper.results.synthetic import METRIC, Model, Sweep, paper

HOSTILE = (
    "$\\foo$ _{x} <script>alert(1)</script>\x1b[31m\n\u202e=cmd() \U0001f600 日本 \0"
    * 7
)


def half(arm, model, seed):
    return (model.heads + model.embedding_size // 32 + seed) % 2 == 0


def hostile():
    sweep = figure1()
    sweep.title = HOSTILE
    sweep.labels = {arm: HOSTILE + arm for arm in sweep.labels}
    return sweep


def texts(figure):
    """All text that can be seen."""
    figure.draw_without_rendering()
    found = [text for text in figure.findobj(Text) if text.get_visible()]
    return [
        text
        for text in found
        if text.get_text().strip() and text.get_window_extent().width
    ]


def draw(kind, table):
    """Draw a table by the figure of this name."""
    return figure_of(replace(table, experiment={**table.experiment, "figure": kind}))


def words(figure):
    return " ".join(text.get_text() for text in texts(figure))


SWEEPS: dict[str, Callable[[], Sweep | Finetuned]] = {
    "few": lambda: figure1(grid=FEW, seeds=1),
    "half": lambda: figure1(grid=PAPER, done=half),
    "none": lambda: figure1(done=lambda arm, model, seed: False),
    "hostile": hostile,
    "lists": lambda: by_hand(
        {"model.heads": [2, 3], "optimizer.betas": [[0.9, 0.9], [0.9, 0.99]]}
    ),
    "words": lambda: by_hand(
        {"model/attention": ["multi_head", HOSTILE], "model.heads": [2, 3]}
    ),
    "contexts": theorem1,
    "fine-tuned": lambda: Finetuned("fig2", seeds=3),
    "fine-tuned, none": lambda: Finetuned("fig2", done=lambda task, heads, seed: False),
    "fine-tuned, hostile": lambda: Finetuned(
        "table2b",
        about={
            "title": HOSTILE,
            "text": HOSTILE,
            "arms": {"fixed": {"label": HOSTILE}},
        },
    ),
}
BY_EVERY = ("none", "hostile", "lists")  # drawn by each figure that can


@pytest.mark.parametrize("name", SWEEPS)
def test_a_figure_is_as_wide_as_a_column_and_no_text_is_clipped_or_covered(
    tmp_path, name
):
    sweep = SWEEPS[name]()
    table = sweep.table(tmp_path)
    able = [
        one for one in names(FIGURES) if one != "fig1" or "standard" in sweep.labels
    ]
    own = str(table.experiment["figure"])
    for kind in able if name in BY_EVERY else [own]:
        figure = draw(kind, table)
        assert figure.get_figwidth() in (COLUMN, DOUBLE_COLUMN)
        assert figure.get_figheight() < 9.0  # the height of a page
        written = texts(figure)
        width, height = figure.bbox.width, figure.bbox.height
        # Not an annotation's own extent, which holds its leader too.
        boxes = [(text.get_text(), Text.get_window_extent(text)) for text in written]
        for text, box in boxes:
            inside = (
                box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height
            )
            assert inside, f"{text!r} leaves the canvas"
        for (text, box), (other, other_box) in combinations(boxes, 2):
            across = min(box.x1, other_box.x1) - max(box.x0, other_box.x0)
            up = min(box.y1, other_box.y1) - max(box.y0, other_box.y0)
            assert across <= 0.5 or up <= 0.5, f"{text!r} and {other!r} overlap"


MATPLOTLIBRC = """
text.usetex: True
font.family: serif
font.size: 23
axes.facecolor: black
axes.formatter.use_mathtext: True
figure.autolayout: True
legend.fancybox: False
path.sketch: 3, 100, 2
savefig.bbox: tight
svg.hashsalt: another
"""


def test_files_hold_no_code_and_drawn_again_they_are_the_same_bytes(tmp_path):
    """In another process, in another order of hashing, whatever the user's matplotlibrc says."""
    sweep = figure1(grid=FEW)
    sweep.title = HOSTILE
    sweep.write(tmp_path)
    (tmp_path / "matplotlibrc").write_text(MATPLOTLIBRC)
    first = {
        path: path.read_bytes() for path in write_figures(tmp_path, collect(tmp_path))
    }
    files = {path.name: data for path, data in first.items()}
    assert set(files) == {"fig1.pdf", "fig1.png", "fig1.svg"}
    for path in first:
        path.unlink()
    command = [sys.executable, "-m", "sweeper", "draw", f"--outputs={tmp_path}"]
    environment = {"PYTHONHASHSEED": "7", "MATPLOTLIBRC": str(tmp_path)}
    subprocess.run(command, check=True, env=environment, capture_output=True)
    assert {path: path.read_bytes() for path in first} == first
    # Files are what they are called and hold no code.
    assert files["fig1.pdf"].startswith(b"%PDF")
    assert not re.search(rb"(CreationDate|ModDate|/Type3)", files["fig1.pdf"])
    assert files["fig1.png"].startswith(b"\x89PNG")
    # 300 dots an inch.
    assert int.from_bytes(files["fig1.png"][16:20], "big") == round(DOUBLE_COLUMN * 300)
    svg = ElementTree.fromstring(files["fig1.svg"])
    tags = {element.tag.rpartition("}")[2] for element in svg.iter()}
    assert "path" in tags
    assert not tags & {"script", "foreignObject", "image", "a"}


def test_a_figure_that_cannot_be_drawn_is_named_and_everything_else_is_written(
    tmp_path,
):
    table = by_hand({"model.heads": [2, 3]}).table(tmp_path)
    tables = [replace(table, name=name) for name in ("first", "broken", "last")]
    rows = [{**row, "seed": "two"} for row in tables[1].rows]  # figures expect a number
    tables[1] = replace(tables[1], rows=rows)
    faults = Faults()
    written = write_figures(tmp_path, tables, faults)
    assert {path.stem for path in written} == {"first", "last"}
    [fault] = map(str, faults)
    assert fault.startswith("broken: the figure curves cannot be drawn (ValueError: ")
    page = write_report(
        tmp_path, tables, {table.name: [] for table in tables}, faults=faults
    )
    assert set(content_of(page)["figures"]) == {"first", "last"}
    assert len(content_of(page)["experiments"]) == 3


def test_every_seed_and_every_mean_is_drawn(tmp_path):
    table = figure1(grid=PAPER, done=half).table(tmp_path)
    found = points(table, METRIC)
    spread = seed_spread(found)
    figure = draw("fig1", table)
    for axes, column in zip(figure.axes, (*fig1.TOP, *fig1.BOTTOM), strict=True):
        lines = (np.column_stack(line.get_data()) for line in axes.get_lines())
        drawn = {(float(x), float(y)) for line in lines for x, y in line}
        bars = (
            one.get_segments()
            for one in axes.collections
            if isinstance(one, LineCollection)
        )
        ends = {
            tuple(map(tuple, segment.tolist()))
            for segments in bars
            for segment in segments
        }
        for point in found:
            values = list(point.values.values())
            if values:
                x = float(point.cells[column])
                low, high = point.interval(spread) or (0.0, 0.0)
                assert (x, point.mean) in drawn
                assert ((x, low), (x, high)) in ends
                assert {(x, value) for value in values if len(values) > 1} <= drawn


@pytest.mark.parametrize("kind", ["fig1", "fig3", "curves"])
def test_means_are_geometric_from_a_factor_of_ten(tmp_path, kind):
    sweep = figure1(grid=FEW)
    # It did not learn.
    sweep.results[sweep.points[-1]["run"]]["metrics"][METRIC] = 900.0
    table = sweep.table(tmp_path)
    figure = draw(kind, table)
    drawn = {float(y) for line in figure.axes[0].get_lines() for y in line.get_ydata()}
    for point in points(table, METRIC):
        geometric = math.prod(point.values.values()) ** (1 / len(point.values))
        assert any(math.isclose(geometric, y) for y in drawn)
    assert "Geometric mean of 3 seeds" in words(figure)


def test_fine_tuned_models_have_a_panel_a_metric_with_every_seed(tmp_path):
    figure = draw("fig2", Finetuned("fig2", seeds=3).table(tmp_path))
    shown = (("test/f1", 1), ("test/exact_match", 1), ("test/accuracy", 100))
    for axes, (metric, times) in zip(figure.axes, shown, strict=True):
        drawn = np.concatenate(
            [np.column_stack(line.get_data()) for line in axes.get_lines()]
        )
        for model in MODELS.values():
            for seed in range(3):
                wanted = (
                    model.size["params_total"],
                    times * score(metric, model, seed),
                )
                assert (
                    np.isclose(drawn.astype(float), wanted, rtol=1e-12)
                    .all(axis=1)
                    .any()
                )


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        (range(2, 20), "linear"),
        (range(2, 21), "log"),
        ([2, 4, 8, 16], "log"),
        ([2, 4, 8, 12], "linear"),
        ([2, 4, 8], "linear"),
    ],
)
def test_scales_are_logarithmic_from_a_factor_of_ten_and_say_so(
    tmp_path, values, scale
):
    axes = draw("curves", by_hand({"model.heads": [*values]}).table(tmp_path)).axes[0]
    assert axes.get_xscale() == scale
    assert axes.get_xlabel() == ("heads (log)" if scale == "log" else "heads")


def test_a_grid_typed_by_hand_has_a_title_and_its_fixed_overrides(tmp_path):
    table = by_hand({"model.heads": [2, 3]}).table(tmp_path)
    typed = "model.heads=2,3 trainer.steps=50 trainer.threads=2 paths.outputs=x name=y seed=1"
    told = words(
        draw(
            "curves",
            replace(table, provenance={"command": ["sweep.py", *typed.split()]}),
        )
    )
    assert "Test perplexity per subword by heads" in told
    assert "With trainer.steps=50." in told


def test_baselines_are_marks_outside_the_panel_and_told_if_far_below_the_curves(
    tmp_path,
):
    table = Finetuned("fig2").table(tmp_path)
    figure = draw("fig2", table)
    marks = [line for line in figure.axes[2].get_lines() if line.get_marker() == "<"]
    assert [float(line.get_ydata()[0]) for line in marks] == pytest.approx([35.3, 38.1])
    assert all(
        line.get_xdata()[0] > 1 for line in marks
    )  # of the width: they cross no line
    assert not figure.axes[2].texts
    assert {"majority class", "bag of words"} <= {t.get_text() for t in texts(figure)}
    low = {"mnli": {"test/majority_accuracy": 0.01}}
    rows = [{**row, **low.get(row["task"], {})} for row in table.rows]
    figure = draw("fig2", replace(table, rows=rows))
    assert "majority class" not in {text.get_text() for text in texts(figure)}
    assert "Outside panel (c): majority class 1.0." in words(figure)


def test_missing_and_mixed_runs_and_matching_errors_are_in_the_figure(tmp_path):
    sweep = figure1(done=lambda arm, model, seed: (arm, seed) != ("fixed", 1))
    table = sweep.table(tmp_path)
    rows = [{**row, "code": f"of {row['seed'] % 2}"} for row in table.rows]
    columns = [*dict.fromkeys([*table.columns, "code"])]
    told = words(draw("fig1", replace(table, columns=columns, rows=rows)))
    runs, missing = len(sweep.records), len(sweep.records) - len(sweep.results)
    assert missing
    assert f"{missing} of {runs} runs are missing: {missing} not started." in told
    worst = max(abs(p["matched"]["error"]) for p in sweep.points if p["matched"])
    within = f"to within {math.ceil(worst * 1e4) / 100:.2f} %"
    assert f"total parameters of what they are matched {within}" in told
    assert "Mean of 2 to 3 seeds, 95 % interval" in told
    assert "Runs of 2 versions of the program: of 0, of 1." in told


def test_one_seed_has_no_interval_and_the_figure_says_so(tmp_path):
    figure = draw("fig1", figure1(grid=FEW, seeds=1).table(tmp_path))
    assert "there is no interval" in words(figure)
    for axes in figure.axes:
        for lines in axes.collections:
            assert isinstance(lines, LineCollection)
            assert not lines.get_segments()


def test_heads_stand_beside_the_lines_or_else_in_the_legend(tmp_path):
    beside = words(draw("fig1", figure1().table(tmp_path / "beside")))
    assert "16 heads" in beside
    assert "head size d/h, 16 heads" not in beside
    # At the largest embedding size one line has no point, so it ends far from the edge.
    grid = Grid((64, 96, 128, 160), (2, 4, 8, 16, 32, 64))
    legend = words(draw("fig1", figure1(grid=grid).table(tmp_path / "legend")))
    assert "head size d/h, 64 heads" in legend


@pytest.mark.parametrize("sizes", [[7, None], [7]], ids=["two values", "one"])
def test_curves_run_along_the_first_key_that_was_typed(tmp_path, sizes):
    table = by_hand({"model.heads": [2, 3, 5], "model.head_size": sizes}).table(
        tmp_path
    )
    series = curves.series_of(points(table, METRIC), "model.heads")
    assert [one.key for one in series] == [
        (("model.head_size", size),) for size in sizes
    ]
    assert [point.settings["model.heads"] for point in series[0].points] == [2, 3, 5]


def test_null_is_named_on_an_axis_as_it_is_typed(tmp_path):
    table = by_hand({"optimizer.gradient_clip": [None, 1.0]}).table(tmp_path)
    series = curves.series_of(points(table, METRIC), "optimizer.gradient_clip")
    assert curves.places(series, "optimizer.gradient_clip")[1] == ["null", "1.0"]


def test_standard_models_are_a_curve_for_each_number_of_heads(tmp_path):
    series = fig1.series_of(points(figure1().table(tmp_path), METRIC))
    standard = [("standard", heads) for heads in (2.0, 4.0, 8.0, 16.0)]
    keys = [(one.arm, one.key) for one in series]
    assert keys == [*standard, ("fixed", None), ("matched", None)]
    found = marks(series[0].points, lambda point: point.at("params_total"), {})
    models = [Model(d, 2, d // 2) for d in (64, 96, 128)]
    assert [mark.x for mark in found] == sorted(
        model.size["params_total"] for model in models
    )
    assert [mark.mean for mark in found] == pytest.approx(
        [*map(paper, models)], rel=0.03
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
    [one] = curves.series_of(points(sweep.table(tmp_path), METRIC), "params_total")
    assert [point.at("model.heads") for point in one.points] == [2, 3, 4]
    assert one.key == ()


def test_every_knee_is_marked_and_named(tmp_path):
    figure = draw("theorem1", theorem1().table(tmp_path))
    for axes, knees in zip(figure.axes, ({5: 4, 7: 6}, {5: 2, 7: 3}), strict=True):
        rings = {
            line.get_xdata()[0]
            for line in axes.get_lines()
            if line.get_markersize() == 9.0
        }
        assert rings == {head_size / n for n, head_size in knees.items()}
        guides = [text.get_text() for text in axes.texts]
        assert {"n", "n / 2"} <= set(guides)
    knees = "(a) 4 for n = 5, (a) 6 for n = 7, (b) 2 for n = 5, (b) 3 for n = 7"
    assert f"Head sizes of the measured knees: {knees}." in words(figure).replace(
        "\n", " "
    )


def lengths(sizes, measured):
    """Heads of these sizes at lengths of 8 and 32; `measured` of length, size and seed."""
    sweep = Sweep(
        name="lengths", figure="sequence_length", metric="test/loss", claims=()
    )
    sweep.labels = {"heads": "heads"}
    for length, size in product((8, 32), sizes):
        values = {"task.sequence_length": length, "model.head_size": size}
        found = {seed: measured(length, size, seed) for seed in (0, 2)}
        sweep.add("heads", values, Model(length, 4, size), found)
    return sweep


def test_each_length_has_its_knees_above_what_smaller_heads_cost(tmp_path):
    sweep = lengths(
        (2, 4, 16, 32), lambda n, size, seed: 5 - n / 16 + 0.25 / size + seed / 1024
    )
    figure = draw("sequence_length", sweep.table(tmp_path))
    lines = [
        [*zip(*line.get_data(), strict=True)] for line in figure.axes[0].get_lines()
    ]
    placed = {point for line in lines if len(line) == 1 for point in line}
    assert placed == {(4, 1.02), (7, 1.06), (16, 1.02), (31, 1.06)}
    ends = [line[-1][1] for line in lines if len(line) == 4]
    assert ends == pytest.approx([0, 0], abs=1e-12)
    assert {"n = 8", "n = 32", "n / 2", "n - 1"} <= {
        t.get_text() for t in figure.findobj(Text)
    }


def test_the_lengths_of_each_arm_are_compared_with_its_own_largest_head(tmp_path):
    sweep = lengths((2, 32), lambda n, size, seed: 5 + 1 / size)
    sweep.labels["other"] = "rotary"
    for size in (2, 8):
        values = {"task.sequence_length": 8, "model.head_size": size}
        sweep.add(
            "other", values, Model(9, 4, size), {0: 7 + 2 / size, 2: 7 + 2 / size}
        )
    figure = draw("sequence_length", sweep.table(tmp_path))
    lines = [line.get_data() for line in figure.axes[0].get_lines()]
    drawn = {(*xs, round(ys[0], 5)) for xs, ys in lines if len(xs) == 2}
    # A loss is the logarithm of a perplexity there, plus 1.
    of_heads, of_rotary = (
        math.log(more / less) for more, less in ((6.5, 6.03125), (9, 8.25))
    )
    assert drawn == {(2, 32, round(of_heads, 5)), (2, 8, round(of_rotary, 5))}
    assert {"heads, n = 8", "rotary, n = 8"} <= {
        t.get_text() for t in figure.findobj(Text)
    }


def test_a_reparametrised_run_stands_beside_the_one_it_was(tmp_path):
    sweep = Sweep(
        name="shared", figure="collaborative", metric="test/accuracy", claims=()
    )
    sweep.labels = {"trained": "MNLI", "shared": "shared"}
    sweep.add("trained", {}, Model(64, 4, 16), {0: 0.5, 1: 0.6})
    for size in (8, 16, 32):
        values = {"model.attention.shared_size": size}
        sweep.add("shared", values, Model(64, 7, size), {0: size / 100, 1: size / 90})
    table = sweep.table(tmp_path)
    arms = {
        "trained": {"label": "MNLI"},
        "shared": {"label": "shared", "parent": "trained"},
    }
    rows = [{**row, "params_attention_saved": 0.25} for row in table.rows]
    about = {**table.experiment, "arms": arms}
    figure = draw("collaborative", replace(table, experiment=about, rows=rows))
    curve, *lines = figure.axes[0].get_lines()
    levels = [line.get_ydata()[0] for line in lines if len(set(line.get_ydata())) == 1]
    assert pytest.approx(55.0) in levels
    assert list(curve.get_xdata()) == [8, 16, 32]
    assert curve.get_ydata()[2] == pytest.approx(100 * (0.32 + 32 / 90) / 2)
    assert "25%" in words(figure)


def two_arms(**about):
    """Two arms that have the same values at 2 heads and other ones at 7."""
    sweep = Sweep(figure="curves", x="model.heads", claims=(), **about)
    sweep.labels = {"one": "one of them", "other": "the other of them"}
    for arm, far in (("one", 0.7), ("other", 0.4)):
        for heads, value in ((2, 0.98), (7, far)):
            measured = {0: value - 0.02, 1: value + 0.02}
            sweep.add(
                arm, {"model.heads": heads}, Model(64, heads, ord(arm[1])), measured
            )
    return sweep


@pytest.mark.parametrize("kind", ["fig1", "fig3", "curves"])
def test_the_mean_of_a_percentage_is_never_geometric(tmp_path, kind):
    sweep = two_arms(metric="test/accuracy")
    sweep.results[sweep.points[-1]["run"]]["metrics"]["test/accuracy"] = 0.05
    table = sweep.table(tmp_path)
    figure = draw(kind, table)
    drawn = [float(y) for line in figure.axes[0].get_lines() for y in line.get_ydata()]
    assert any(math.isclose(y, (38 + 5) / 2) for y in drawn)
    assert "Mean of 2 seeds" in words(figure)


def test_the_interval_of_a_percentage_stays_within_it(tmp_path):
    table = two_arms(metric="test/accuracy").table(tmp_path)
    found = points(table, "test/accuracy")
    ends = [mark.ends for mark in marks(found, "model.heads", seed_spread(found))]
    assert max(high for _, high in ends) == 100.0
    assert min(low for low, _ in ends) > 0.0


def test_the_interval_of_a_rank_ends_at_the_head_size_where_that_limits_it(tmp_path):
    metric = "test/attention_rank"
    sweep = Sweep(name="ranks", metric=metric, claims=())
    for size, ranks in (4, (3.0, 3.9)), (16, (11.0, 11.4)):
        values = {"model.head_size": size}
        sweep.add("one", values, Model(64, 2, size), dict(enumerate(ranks)))
    table = sweep.table(tmp_path)
    found = points(table, metric)
    high = {
        mark.x: mark.ends[1]
        for mark in marks(found, "model.head_size", seed_spread(found))
    }
    assert high[4.0] == 4.0
    assert 11.4 < high[16.0] < 16.0
    rows = [{**row, "model.attention.name": "collaborative"} for row in table.rows]
    free = points(
        replace(table, rows=rows), metric
    )  # its heads share a larger projection
    assert marks(free, "model.head_size", seed_spread(free))[0].ends[1] > 4.0


def test_a_point_with_another_learning_rate_than_most_has_a_ring(tmp_path):
    table = two_arms().table(tmp_path)
    rate = "optimizer.learning_rate"
    rows = [
        {
            **row,
            rate: 0.02 if (row["arm"], row["model.heads"]) == ("other", 7) else 0.01,
        }
        for row in table.rows
    ]
    tuned = replace(table, rows=rows)
    figure = draw("curves", tuned)
    rings = [
        line for line in figure.axes[0].get_lines() if line.get_markersize() == 8.0
    ]
    assert [line.get_xydata().tolist() for line in rings] == [
        [[7.0, pytest.approx(0.4)]]
    ]
    assert "Ringed: with another learning rate than most points, 0.01." in words(figure)
    varied = {name: {**values, rate: 0.01} for name, values in tuned.settings.items()}
    assert "Ringed" not in words(draw("curves", replace(tuned, settings=varied)))


def test_the_rank_of_heads_stands_beside_the_most_it_can_be(tmp_path):
    sweep = Sweep(
        name="ranks", figure="attention", metric="test/attention_rank", claims=()
    )
    sweep.labels = {"sizes": "sizes"}
    for heads in (3, 5):
        for size in (2, 7, 13):
            values = {"model.heads": heads, "model.head_size": size}
            sweep.add(
                "sizes", values, Model(64, heads, size), {0: 0.5 * size, 1: 0.7 * size}
            )
    for result in sweep.results.values():
        result["metrics"]["test/attention_entropy"] = 1.1
    figure = draw("attention", sweep.table(tmp_path))
    ranks, entropies = figure.axes
    drawn = [
        (list(line.get_xdata()), list(line.get_ydata())) for line in ranks.get_lines()
    ]
    [bound] = [xs for xs, ys in drawn if xs == ys]
    assert (bound[0], bound[-1]) == (2, 13)
    assert ([2, 7, 13], pytest.approx([0.6 * size for size in (2, 7, 13)])) in drawn
    assert all(set(line.get_ydata()) == {1.1} for line in entropies.get_lines())
    said = {text.get_text() for text in figure.findobj(Text)}
    assert {"3 heads", "5 heads", "(a) the head size, the most it can be"} <= said


def test_no_two_of_many_arms_look_alike():
    looks = panel.looks_of(f"arm {place}" for place in range(30))
    assert len({(look.colour, look.marker) for look in looks.values()}) == 30


def test_a_tick_stands_at_the_number_that_it_shows():
    axes = Figure().add_subplot()
    point = Point("a", "", {})
    close = [
        panel.Mark(x, 50.0, None, (49.0, 51.0), point) for x in (1_511_900, 1_522_600)
    ]
    panel.fill(axes, "params_total", METRIC, [(panel.Look("black"), close)])
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1.515M", "1.52M"]
    assert list(axes.get_xticks()) == [1_515_000, 1_520_000]


def test_n_gram_models_are_lines_near_the_curves_and_say_where_models_stand(tmp_path):
    table = figure1(grid=FEW, seeds=1).table(tmp_path)
    values = [row[table.metric] for row in table.rows]
    trigram, bigram = min(values) - 30, max(values) + 1
    reached = {"trigram": trigram, "bigram": bigram, "unigram": 400.0}
    columns = {f"test/{name}_perplexity": value for name, value in reached.items()}
    compared = replace(table, rows=[{**row, **columns} for row in table.rows])
    figure = fig1.draw(compared)
    [sentence] = standing(compared)
    assert sentence.endswith(": all models are between bigram and trigram.")
    told = " ".join(words(figure).split())
    assert sentence in told
    assert "not learned" not in told
    for axes in figure.axes:
        assert [text.get_text() for text in axes.texts].count("bigram") == 1
        assert "unigram" not in [text.get_text() for text in axes.texts]
    worse = {**compared.rows[0], table.metric: 401.0}
    [sentence] = standing(replace(compared, rows=[worse, *compared.rows[1:]]))
    assert sentence.endswith(
        "the best model is between bigram and trigram and the worst worse than the unigram."
    )
    [sentence] = not_learned(replace(compared, rows=[worse, *compared.rows[1:]]))
    assert "not learned, no better than the unigram" in sentence
    assert standing(table) == []


def test_over_the_length_of_training_the_trigram_is_a_curve(tmp_path):
    sweep = Sweep(name="steps", x="trainer.steps", labels={"a": "a"}, claims=())
    for steps in (100, 200):
        sweep.add(
            "a", {"trainer.steps": steps}, Model(64, 4, 32), {0: 50.0 - steps / 100}
        )
    table = sweep.table(tmp_path)
    trigrams = {100: 40.0, 200: 39.0}
    columns = [
        {"test/trigram_perplexity": trigrams[row["trainer.steps"]]}
        for row in table.rows
    ]
    rows = [row | more for row, more in zip(table.rows, columns, strict=True)]
    compared = replace(table, rows=rows)
    assert trigram_curve(compared, "trainer.steps") == [(100, 40.0), (200, 39.0)]
    [axes] = curves.draw(compared).axes
    assert "trigram" in [text.get_text() for text in axes.texts]
    dashed = [list(line.get_ydata()) for line in axes.get_lines() if line.is_dashed()]
    assert [40.0, 39.0] in dashed
    low, high = axes.get_ylim()
    values = [row[table.metric] for row in table.rows]
    assert low < 39 < max(values) < high, (low, high, values)
    assert "trigram 39 to 40" in " ".join(standing(compared))
    # Along heads, runs of one size would need two values at once.
    assert trigram_curve(compared, "model.heads") == []
