"""Figures show every seed and say what is missing; their files are safe and the same again."""

import math
import re
import subprocess
import sys
from dataclasses import replace
from itertools import combinations, product
from operator import methodcaller
from xml.etree import ElementTree

import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.text import Text

from sweeper.results import panel
from sweeper.results.collect import collect
from sweeper.results.figures import curves, fig1, figure_of, write_figures
from sweeper.results.layout import COLUMN, DOUBLE_COLUMN
from sweeper.results.palette import arm_looks
from sweeper.results.points import points, trigram_curve
from sweeper.results.remarks import baseline_scores
from sweeper.results.table import label
from sweeper.store.errors import Faults
from sweeper.store.numbers import short
from sweeper.store.registry import FIGURES, names
from tests.sweeper.results.synthetic import (
    LABELS,
    METRIC,
    MODELS,
    PAPER,
    Model,
    Sweep,
    by_hand,
    edited,
    few,
    figure1,
    finetuned,
    one_arm,
    score,
    theorem1,
)

HOSTILE = "$\\foo$ _{x} <script>alert(1)</script>\x1b[31m\n\u202e=cmd() é \0" * 7


def half(arm, model, seed):
    return (model.heads + model.embedding_size // 32 + seed) % 2 == 0


def draw(kind, made):
    """Draw a table or a sweep with the figure of this name."""
    table = made.table() if isinstance(made, Sweep) else made
    return figure_of(replace(table, experiment={**table.experiment, "figure": kind}))


def texts(figure):
    """Return all visible text. Labels of ticks outside the limits are invisible."""
    figure.draw_without_rendering()
    hidden = []
    for axes, name in product(figure.axes, ("xaxis", "yaxis")):
        axis = getattr(axes, name)
        low, high = sorted(axis.get_view_interval())
        ticks = axis.get_major_ticks()
        hidden += [tick.label1 for tick in ticks if not low <= tick.get_loc() <= high]
    found = [text for text in figure.findobj(Text) if text.get_visible()]
    return [text for text in found if text.get_text().strip() and text not in hidden]


def words(figure):
    return " ".join(" ".join(text.get_text() for text in texts(figure)).split())


def lines_of(axes):
    """Return the (x, y) positions of each line."""
    return [[*zip(*line.get_data(), strict=True)] for line in axes.get_lines()]


def bars_of(drawn):
    """Return the ends of each interval in a figure or in its axes."""
    every = drawn.findobj(LineCollection)
    return [bar.tolist() for lines in every for bar in lines.get_segments()]


SWEEPS = {
    "few": few,
    "half": lambda: figure1(grid=PAPER, done=half),
    "none": lambda: figure1(done=lambda arm, model, seed: False),
    "hostile": lambda: figure1(
        title=HOSTILE, labels={arm: HOSTILE + arm for arm in LABELS}
    ),
    "words": lambda: by_hand(
        {"model/attention": ["multi_head", HOSTILE], "model.heads": [2, 3]}
    ),
    "contexts": theorem1,
    "fine-tuned": lambda: finetuned("fig2", seeds=3),
    "fine-tuned, hostile": lambda: finetuned(
        "table2b",
        title=HOSTILE,
        text=HOSTILE,
        arms={"fixed": {"label": HOSTILE}},
    ),
}
BY_EVERY = ("none", "hostile")  # drawn by each figure


@pytest.mark.parametrize("name", SWEEPS)
def test_a_figure_is_as_wide_as_a_column_and_no_text_is_clipped_or_covered(name):
    table = SWEEPS[name]().table()
    own = str(table.experiment["figure"])
    for kind in names(FIGURES) if name in BY_EVERY else [own]:
        figure = draw(kind, table)
        assert figure.get_figwidth() in (COLUMN, DOUBLE_COLUMN)
        assert figure.get_figheight() < 9.0  # the height of a page
        # The extent of an annotation would include its leader line.
        boxes = [(t.get_text(), Text.get_window_extent(t)) for t in texts(figure)]
        for text, box in boxes:
            inside = box.x0 >= 0 and box.y0 >= 0
            inside &= box.x1 <= figure.bbox.width and box.y1 <= figure.bbox.height
            assert inside, f"{kind}: {text!r} leaves the canvas"
        for (text, box), (other, other_box) in combinations(boxes, 2):
            across = min(box.x1, other_box.x1) - max(box.x0, other_box.x0)
            up = min(box.y1, other_box.y1) - max(box.y0, other_box.y0)
            assert across <= 0.5 or up <= 0.5, f"{kind}: {text!r} and {other!r} overlap"


MATPLOTLIBRC = """
text.usetex: True
font.family: serif
font.size: 23
axes.facecolor: black
figure.autolayout: True
path.sketch: 3, 100, 2
savefig.bbox: tight
svg.hashsalt: another
"""


def test_files_hold_no_code_and_drawn_again_they_are_the_same_bytes(tmp_path):
    """Neither another process, nor its hash seed, nor a user's matplotlibrc changes the bytes."""
    few(seeds=3, title=HOSTILE).write(tmp_path)
    (tmp_path / "matplotlibrc").write_text(MATPLOTLIBRC)
    paths = write_figures(tmp_path, collect(tmp_path))
    first = {path: path.read_bytes() for path in paths}
    for path in first:
        path.unlink()
    command = [sys.executable, "-m", "sweeper", "draw", f"--outputs={tmp_path}"]
    environment = {"PYTHONHASHSEED": "7", "MATPLOTLIBRC": str(tmp_path)}
    subprocess.run(command, check=True, env=environment, capture_output=True)
    assert {path: path.read_bytes() for path in first} == first

    pdf, png, svg = first.values()
    assert pdf.startswith(b"%PDF")
    assert not re.search(rb"(CreationDate|ModDate|/Type3)", pdf)
    assert png.startswith(b"\x89PNG")
    assert int.from_bytes(png[16:20], "big") == round(DOUBLE_COLUMN * 300)  # dots
    tags = {one.tag.rpartition("}")[2] for one in ElementTree.fromstring(svg).iter()}
    assert "path" in tags
    assert not tags & {"script", "foreignObject", "image", "a"}


def test_a_figure_that_cannot_be_drawn_is_named_and_the_others_are_written(tmp_path):
    table = by_hand({"model.heads": [2, 3]}).table()
    tables = [replace(table, name=name) for name in ("first", "broken", "last")]
    tables[1] = edited(tables[1], seed="two")  # figures expect a number
    faults = Faults()
    written = write_figures(tmp_path, tables, faults)
    [fault] = map(str, faults)
    assert fault.startswith("broken: The figure curves cannot be drawn (ValueError: ")
    assert {path.stem for path in written} == {"first", "last"}


def test_every_seed_every_mean_and_every_interval_is_drawn():
    table = figure1(grid=PAPER, done=half).table()
    found = panel.Curves(table, points(table, METRIC))
    measured = [point for point in found.points if point.values]
    figure = draw("fig1", table)
    for axes, column in zip(figure.axes, (*fig1.TOP, *fig1.BOTTOM), strict=True):
        assert axes.get_xlabel().removesuffix(" (log)") == label(column)
        marks = {place for line in lines_of(axes) for place in line}
        bars = bars_of(axes)
        for point in measured:
            x = float(point.cells[column])
            seeds = point.values.values() if len(point.values) > 1 else ()
            assert {(x, value) for value in (point.mean, *seeds)} <= marks
            low, high = point.interval(found.spread)
            assert [[x, low], [x, high]] in bars


@pytest.mark.parametrize(
    ("metric", "first", "last", "mean", "told"),
    [
        (METRIC, 20.0, 900.0, math.sqrt(20 * 900), "Geometric mean of 2 seeds"),
        ("test/accuracy", 0.2, 0.05, (20 + 5) / 2, "Mean of 2 seeds"),
    ],
)
def test_means_are_geometric_from_a_factor_of_ten_but_for_percentages(
    metric, first, last, mean, told
):
    measured = {2: (first, first), 7: (first, last)}
    figure = draw("curves", one_arm("model.heads", measured, metric=metric))
    heights = [y for line in lines_of(figure.axes[0]) for _, y in line]
    assert any(math.isclose(mean, y) for y in heights)
    assert told in words(figure)


def test_fine_tuned_models_have_a_panel_a_metric_with_every_seed():
    figure = draw("fig2", finetuned("fig2", seeds=3))
    shown = (("test/f1", 1), ("test/exact_match", 1), ("test/accuracy", 100))
    for axes, (metric, times) in zip(figure.axes, shown, strict=True):
        drawn = {(x, round(y, 9)) for line in lines_of(axes) for x, y in line}
        for model, seed in product(MODELS.values(), range(3)):
            wanted = round(times * score(metric, model, seed), 9)
            assert (model.size["params_total"], wanted) in drawn
    told = words(figure)
    assert "Baselines by MNLI accuracy (%): majority class 35.30" in told
    assert "All seeds of a point start from one pre-training" in told


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
def test_scales_are_logarithmic_from_a_factor_of_ten_and_say_so(values, scale):
    axes = draw("curves", by_hand({"model.heads": [*values]})).axes[0]
    assert axes.get_xscale() == scale
    assert axes.get_xlabel() == ("heads (log)" if scale == "log" else "heads")


def test_a_grid_typed_by_hand_has_a_title_and_its_fixed_overrides():
    table = by_hand({"model.heads": [2, 3]}).table()
    typed = "model.heads=2,3 trainer.steps=50 trainer.threads=2 paths.outputs=x name=y seed=1"
    command = {"command": ["sweep.py", *typed.split()]}
    told = words(draw("curves", replace(table, provenance=command)))
    assert "Test perplexity per subword by heads" in told
    assert "With trainer.steps=50." in told


def test_missing_and_mixed_runs_and_matching_errors_are_in_the_figure():
    sweep = figure1(done=lambda arm, model, seed: (arm, seed) != ("fixed", 1))
    table = edited(sweep.table(), code=lambda row: f"of {row['seed'] % 2}")
    told = words(draw("fig1", table))
    assert "3 of 51 runs missing: 3 not started." in told
    assert "targets have equal total parameters within 1.93 %" in told
    assert "Mean of 2 to 3 seeds with its 95 % interval" in told
    assert "Runs of 2 versions of the program: of 0, of 1." in told
    assert "head size d/h, 2 to 16 heads" in told


def test_one_seed_has_no_interval_and_the_figure_says_so():
    figure = draw("fig1", few())
    assert "there is no interval" in words(figure)
    assert bars_of(figure) == []


def curves_over(x, sweep):
    """Return the curves that the default figure draws over `x`."""
    table = sweep.table()
    found = points(table, METRIC)
    return panel.Curves(table, found, by=curves.curve_keys(found, x))


@pytest.mark.parametrize(
    ("sizes", "keys"),
    [([7, None], ["head size 7", "head size null"]), ([7], ["head size 7"])],
    ids=["two values", "one"],
)
def test_curves_run_along_the_first_key_that_was_typed(sizes, keys):
    sweep = by_hand({"model.heads": [2, 3, 5], "model.head_size": sizes})
    found = curves_over("model.heads", sweep).every
    assert [one.key for one in found] == keys
    assert [point.settings["model.heads"] for point in found[0].points] == [2, 3, 5]


@pytest.mark.parametrize(
    "kind", ["curves", "fig1", "fig3", "sequence_length", "theorem1"]
)
def test_an_arm_with_another_metric_is_not_drawn_but_named(kind):
    table = theorem1().table()
    table.experiment["arms"]["causal"]["metric"] = "test/loss"
    figure = draw(kind, table)
    drawn = {y for axes in figure.axes for line in lines_of(axes) for _, y in line}
    given = [one for one in points(table, table.metric) if one.arm == "causal"]
    assert drawn.isdisjoint(value for one in given for value in one.values.values())
    named = "another metric: causal mask (test loss (nats per subword))."
    assert named in words(figure)


def test_null_is_named_on_an_axis_as_it_is_typed():
    key = "optimizer.gradient_clip"
    found = curves_over(key, by_hand({key: [None, 1.0]}))
    assert curves.places(found, key)[1] == ["null", "1.0"]


def test_keys_that_move_together_are_one_curve():
    sweep = Sweep()
    for d, heads in ((32, 2), (48, 3), (64, 4)):
        values = {"model.embedding_size": d, "model.heads": heads}
        sweep.add("grid", Model(d, heads, 16), [43.0 - heads], values)
    [one] = curves_over("params_total", sweep).every
    assert [point.at("model.heads") for point in one.points] == [2, 3, 4]
    assert one.key == ""


def test_every_knee_is_marked_and_named():
    figure = draw("theorem1", theorem1())
    for axes, knees in zip(figure.axes, ({5: 4, 7: 6}, {5: 2, 7: 3}), strict=True):
        rings = [one for one in axes.get_lines() if one.get_markersize() == 9.0]
        places = {one.get_xdata()[0] for one in rings}
        assert places == {head_size / n for n, head_size in knees.items()}
        assert {"n", "n / 2"} <= {text.get_text() for text in axes.texts}
    knees = "knees: (a) 4 for n = 5, (a) 6 for n = 7, (b) 2 for n = 5, (b) 3 for n = 7."
    assert knees in words(figure)


def lengths(*arms, metric="test/loss"):
    """Return a sweep of arms: sequence lengths, head sizes, a function that returns a metric."""
    sweep = Sweep(metric=metric)
    for arm, own, sizes, measured in arms:
        for length, size in product(own, sizes):
            values = {"task.sequence_length": length, "model.head_size": size}
            found = [measured(length, size, seed) for seed in range(2)]
            sweep.add(arm, Model(length, 4, size), found, values)
    return sweep


def test_each_length_has_its_knees_above_what_smaller_heads_cost():
    def measured(n, size, seed):
        return 5 - n / 16 + 0.25 / size + seed / 1024

    sweep = lengths(("heads", (8, 32), (2, 4, 16, 32), measured))
    figure = draw("sequence_length", sweep)
    lines = lines_of(figure.axes[0])
    knees = {line[0] for line in lines if len(line) == 1}
    assert knees == {(4, 1.02), (7, 1.06), (16, 1.02), (31, 1.06)}
    curves = [line for line in lines if len(line) == 3]
    assert [[size for size, _ in curve] for curve in curves] == [[2, 4, 16]] * 2
    assert "n = 8 n = 32 n / 2 n - 1" in words(figure)


def test_differences_from_the_largest_head_are_taken_seed_by_seed():
    """A seed that is bad at all head sizes does not widen the intervals of differences."""

    def measured(n, size, seed):
        return {METRIC: 5 + 1 / size + 3 * seed + 0.001 * size * seed}

    sweep = lengths(("heads", (8,), (2, 4, 8), measured), metric=METRIC)
    first, second = bars_of(draw("sequence_length", sweep).axes[0])
    for (_, low), (_, high) in (first, second):
        assert high - low < 0.1


def test_n_gram_models_are_no_lines_beside_differences():
    def measured(n, size, seed):
        # The trigram's perplexity lies among the differences, too.
        return {METRIC: 60 / size + seed, "test/trigram_perplexity": 14.0}

    sweep = lengths(("heads", (8,), (2, 4), measured), metric=METRIC)
    for kind, drawn in (("curves", True), ("sequence_length", False)):
        found = [text.get_text() for text in texts(draw(kind, sweep))]
        assert ("trigram" in found) is drawn


def test_the_lengths_of_each_arm_are_compared_with_its_own_largest_head():
    sweep = lengths(
        ("heads", (8,), (32, 2), lambda n, size, seed: 5 + 1 / size),
        ("rotary", (9,), (2, 8), lambda n, size, seed: 7 + 2 / size),
    )
    figure = draw("sequence_length", sweep)
    drawn = lines_of(figure.axes[0])
    # The loss of a synthetic run is the logarithm of its perplexity, plus 1.
    assert [(2, pytest.approx(math.log(6.5 / 6.03125)))] in drawn
    assert [(2, pytest.approx(math.log(9 / 8.25)))] in drawn
    assert {"heads: n = 8", "rotary: n = 9"} <= {t.get_text() for t in texts(figure)}


def test_a_reparametrised_run_stands_beside_the_one_it_was():
    seeds = {size: (size / 100, size / 90) for size in (8, 16, 32)}
    key = "model.attention.shared_size"
    sweep = one_arm(key, seeds, metric="test/accuracy")
    sweep.add("trained", Model(64, 9, 16), [0.5, 0.6], {})
    table = edited(sweep.table(), params_attention_saved=0.25)
    table.experiment["arms"] = {
        "trained": {"label": "MNLI"},
        "fixed": {"label": "", "parent": "trained"},
    }
    figure = draw("collaborative", table)
    curve, *lines = lines_of(figure.axes[0])
    assert [x for x, _ in curve] == [8, 16, 32]
    assert curve[2][1] == pytest.approx(100 * (0.32 + 32 / 90) / 2)
    assert any(y == pytest.approx(55) for line in lines for _, y in line)
    assert "25%" in words(figure)


@pytest.mark.parametrize(
    ("metric", "attention", "least", "most"),
    [
        ("test/accuracy", "multi_head", 99.9, 100.0),
        ("test/attention_rank", "multi_head", 3.9, 4.0),
        # The heads of this layer share a larger projection, so the rank can exceed their size.
        ("test/attention_rank", "collaborative", 4.1, 99.0),
    ],
)
def test_an_interval_stays_within_what_its_metric_can_be(
    metric, attention, least, most
):
    seeds = (0.96, 0.999) if metric == "test/accuracy" else (3.0, 3.9)
    measured = {4: seeds, 16: [value - 0.1 for value in seeds]}
    table = one_arm("model.head_size", measured, metric=metric).table()
    table = edited(table, **{"model.attention.name": attention})
    found = panel.Curves(table, points(table, metric))
    [small, _] = found.marks(found.every[0], methodcaller("at", "model.head_size"))
    assert least <= small.ends[1] <= most


def test_the_rank_of_heads_stands_beside_the_most_it_can_be():
    sweep = Sweep(metric="test/attention_rank")
    for heads, size in product((3, 5), (2, 7, 13)):
        values = {"model.heads": heads, "model.head_size": size}
        sweep.add("a", Model(64, heads, size), [0.5 * size, 0.7 * size], values)
    table = edited(sweep.table(), **{"test/attention_entropy": 1.1})
    figure = draw("attention", table)
    ranks, entropies = map(lines_of, figure.axes)
    [bound] = [line for line in ranks if all(x == y for x, y in line)]
    assert (bound[0][0], bound[-1][0]) == (2, 13)
    assert [(size, pytest.approx(0.6 * size)) for size in (2, 7, 13)] in ranks
    assert {y for line in entropies for _, y in line} == {1.1}
    assert "3 heads 5 heads (a) largest possible rank, the head size" in words(figure)


def test_no_two_of_many_arms_look_alike():
    looks = arm_looks([str(place) for place in range(30)]).values()
    assert len({(look.colour, look.marker) for look in looks}) == 30


def test_a_tick_stands_at_the_number_that_it_shows():
    axes = Figure().add_subplot()
    axes.plot([1_511_900, 1_522_600], [1, 2])
    panel.scale(axes.xaxis, [1_511_900, 1_522_600])
    labels = [text.get_text() for text in axes.get_xticklabels()]
    assert "1.515M" in labels
    assert labels == [short(tick, 8) for tick in axes.get_xticks()]


def with_grams(table, **perplexities):
    """Return the table with the perplexities of n-gram models."""
    return edited(table, **{f"test/{n}_perplexity": v for n, v in perplexities.items()})


def test_n_gram_models_are_lines_near_the_curves_and_say_where_models_stand():
    table = few().table()
    values = [row[table.metric] for row in table.rows]
    low, high = min(values), max(values)
    far = high + 0.8 * (high - low)
    compared = with_grams(table, trigram=low - 30, bigram=high + 1, unigram=far)
    figure = draw("fig1", compared)
    [sentence] = baseline_scores(compared)
    assert sentence.endswith(". All models are between bigram and trigram.")
    assert sentence in words(figure)
    assert baseline_scores(table) == []
    for axes in figure.axes:
        # A line that is far away would flatten the curves.
        assert [text.get_text() for text in axes.texts] == ["bigram"]
        assert high + 1 < axes.get_ylim()[1] < far

    compared.rows[0][table.metric] = 1e3
    [sentence] = baseline_scores(compared)
    best = "The best model is between bigram and trigram"
    assert sentence.endswith(f". {best}, and the worst is worse than the unigram.")


def test_over_the_length_of_training_the_trigram_is_a_curve():
    table = one_arm("trainer.steps", {100: [49.0], 200: [48.0]}).table()
    trigrams = {100: 40.0, 200: 39.0}
    compared = with_grams(table, trigram=lambda row: trigrams[row["trainer.steps"]])
    [axes] = draw("curves", compared).axes
    assert "trigram" in [text.get_text() for text in axes.texts]
    assert [*trigrams.items()] in lines_of(axes)
    low, high = axes.get_ylim()
    assert low < 39 < 49 < high
    assert "trigram 39 to 40" in " ".join(baseline_scores(compared))
    # Runs with equally many heads have different perplexities, so there is no curve.
    same = edited(compared, **{"model.heads": 2})
    assert trigram_curve(same, "model.heads") == []
    compared.experiment["metric"] = "test/loss"
    assert trigram_curve(compared, "trainer.steps") == []
