"""Figures show every seed, say what is missing, and stay readable whatever they are given."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.text import Text

from sweeper.results.collect import collect
from sweeper.results.draw import figure_of, write_figures
from sweeper.results.figures import curves, fig1, fig2
from sweeper.results.figures.layout.style import COLUMN, DOUBLE_COLUMN, rendered
from sweeper.results.statistics.estimates import estimate, interval
from sweeper.results.table.points import points, seed_spread
from sweeper.results.table.table import Table
from sweeper.store.errors import UserError
from sweeper.store.registry import FIGURES, function, names
from tests.sweeper.results.contexts import theorem1
from tests.sweeper.results.finetuned import MODELS, Finetuned, score
from tests.sweeper.results.grids import FEW, PAPER, Grid, by_hand, figure1
from tests.sweeper.results.synthetic import METRIC, Model, Sweep

HOSTILE = "$\\foo$ _{x} <script>alert(1)</script>\x1b[31m\n\u202e=cmd() \U0001f600 日本 \0" * 7


def half(arm: str, model: Model, seed: int) -> bool:
    return (model.heads + model.embedding_size // 32 + seed) % 2 == 0


def hostile() -> Sweep:
    sweep = figure1()
    sweep.title = HOSTILE
    sweep.labels = {arm: HOSTILE + arm for arm in sweep.labels}
    return sweep


SWEEPS: dict[str, Callable[[], Sweep | Finetuned]] = {
    "few": lambda: figure1(grid=FEW, seeds=1),
    "demo": lambda: figure1(seeds=2),
    "paper": lambda: figure1(grid=PAPER),
    "half": lambda: figure1(grid=PAPER, done=half),
    "none": lambda: figure1(done=lambda arm, model, seed: False),
    "one head count less": lambda: figure1(grid=Grid((64, 96, 128, 160), (2, 4, 8, 16, 32, 64))),
    "hostile": hostile,
    "one point": lambda: by_hand({"model.heads": [2]}),
    "a line": lambda: by_hand({"model.heads": [2, 3, 5]}),
    "lines": lambda: by_hand({"model.heads": [2, 3], "model.head_size": [7, 11, None]}),
    "words": lambda: by_hand({"model/attention": ["multi_head", HOSTILE], "model.heads": [2, 3]}),
    "many lines": lambda: by_hand({"model.heads": [2, 3], "model.layers": list(range(31))}),
    "contexts": theorem1,
    "contexts, one seed": lambda: theorem1(seeds=1),
    "contexts without a knee": lambda: theorem1(lambda n: 99, lambda n: 1),
    "fine-tuned": lambda: Finetuned("fig2", seeds=3),
    "fine-tuned, half": lambda: Finetuned("fig2", done=lambda task, heads, seed: seed == 0),
    "fine-tuned, none": lambda: Finetuned("fig2", done=lambda task, heads, seed: False),
    "fine-tuned, hostile": lambda: Finetuned(
        "table2b", about={"title": HOSTILE, "text": HOSTILE, "arms": {"fixed": {"label": HOSTILE}}}
    ),
    "fine-tuned, paper": lambda: Finetuned("table3", scale="paper"),
}


def texts(figure: Figure) -> list[Text]:
    """All text that can be seen."""
    figure.draw_without_rendering()
    found = [text for text in figure.findobj(Text) if text.get_visible()]
    return [text for text in found if text.get_text().strip() and text.get_window_extent().width]


def words(figure: Figure) -> str:
    return " ".join(text.get_text() for text in texts(figure))


@pytest.fixture(
    scope="module", params=[pytest.param(make, id=name) for name, make in SWEEPS.items()]
)
def drawn(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Figure]:
    """One sweep, drawn by each figure that can; a warning is an error."""
    sweep: Sweep | Finetuned = request.param()
    table = sweep.table(tmp_path_factory.mktemp("outputs"))
    able = [name for name in names(FIGURES) if name != "fig1" or "standard" in sweep.labels]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found: list[Figure] = [function(FIGURES, name, "figure", "draw")(table) for name in able]
        for figure in found:
            figure.draw_without_rendering()
    return found


def test_the_figures_are_found() -> None:
    assert names(FIGURES) == [
        "attention",
        "choices",
        "collaborative",
        "curves",
        "fig1",
        "fig2",
        "fig3",
        "scaling",
        "sequence_length",
        "table",
        "theorem1",
    ]


def test_no_text_is_clipped_or_covered_by_other_text(drawn: list[Figure]) -> None:
    for figure in drawn:
        written = texts(figure)
        width, height = figure.bbox.width, figure.bbox.height
        # Not an annotation's own extent, which holds its leader too.
        boxes = [(text.get_text(), Text.get_window_extent(text)) for text in written]
        for text, box in boxes:
            inside = box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height
            assert inside, f"{text!r} leaves the canvas"
        for (text, box), (other, other_box) in combinations(boxes, 2):
            across = min(box.x1, other_box.x1) - max(box.x0, other_box.x0)
            up = min(box.y1, other_box.y1) - max(box.y0, other_box.y0)
            assert across <= 0.5 or up <= 0.5, f"{text!r} and {other!r} overlap"


def test_columns_have_the_width_of_the_conference(drawn: list[Figure]) -> None:
    for figure in drawn:
        assert figure.get_figwidth() in (COLUMN, DOUBLE_COLUMN)
        assert figure.get_figheight() < 9.0  # the height of a page


def test_every_seed_and_every_mean_is_drawn(tmp_path: Path) -> None:
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


def test_fine_tuned_models_have_a_panel_a_metric_with_every_seed(tmp_path: Path) -> None:
    figure = fig2.draw(Finetuned("fig2", seeds=3).table(tmp_path))
    shown = (("test/f1", 1), ("test/exact_match", 1), ("test/accuracy", 100))
    for axes, (metric, times) in zip(figure.axes, shown, strict=True):
        drawn = np.concatenate([np.column_stack(line.get_data()) for line in axes.get_lines()])
        for model in MODELS.values():
            for seed in range(3):
                wanted = (model.size["params_total"], times * score(metric, model, seed))
                assert np.isclose(drawn.astype(float), wanted, rtol=1e-12).all(axis=1).any()


def test_baselines_are_marks_outside_the_panel_that_cross_no_line(tmp_path: Path) -> None:
    figure = fig2.draw(Finetuned("fig2").table(tmp_path))
    marks = [line for line in figure.axes[2].get_lines() if line.get_marker() == "<"]
    assert [float(line.get_ydata()[0]) for line in marks] == pytest.approx([35.3, 38.1])
    assert all(line.get_xdata()[0] > 1 for line in marks)  # of the width of the panel
    assert not figure.axes[2].texts
    assert {"majority class", "bag of words"} <= {t.get_text() for t in texts(figure)}


def test_scales_are_logarithmic_from_a_factor_of_ten_and_say_so(tmp_path: Path) -> None:
    table = by_hand({"model.heads": [*range(2, 20)]}).table(tmp_path / "linear")
    assert curves.draw(table).axes[0].get_xlabel() == "heads"
    axes = curves.draw(by_hand({"model.heads": [*range(2, 21)]}).table(tmp_path / "log")).axes[0]
    assert (axes.get_xscale(), axes.get_xlabel()) == ("log", "heads (log)")
    for values, scale in (([2, 4, 8, 16], "log"), ([2, 4, 8, 12], "linear"), ([2, 4, 8], "linear")):
        table = by_hand({"model.dropout": values}).table(tmp_path / str(values))
        assert curves.draw(table).axes[0].get_xscale() == scale


def test_a_grid_typed_by_hand_has_a_title_and_its_fixed_overrides(tmp_path: Path) -> None:
    table = by_hand({"model.heads": [2, 3]}).table(tmp_path)
    typed = "model.heads=2,3 trainer.steps=50 trainer.threads=2 paths.outputs=x name=y seed=1"
    told = words(curves.draw(replace(table, provenance={"command": ["sweep.py", *typed.split()]})))
    assert "Test perplexity per subword by heads" in told
    assert "With trainer.steps=50." in told


def test_a_setting_that_was_not_learned_is_named(tmp_path: Path) -> None:
    table = Finetuned("fig2").table(tmp_path)
    chance = {**table.rows[-1], "test/accuracy": 0.3531}
    told = words(fig2.draw(replace(table, rows=[*table.rows[:-1], chance]))).replace("\n", " ")
    assert "MNLI accuracy (%) not learned, about that of the majority class" in told
    assert "heads=32 (1 of 2 seeds)." in told
    assert "not learned" not in words(fig2.draw(table))


def test_a_baseline_far_below_the_curves_is_told_not_drawn(tmp_path: Path) -> None:
    table = Finetuned("fig2").table(tmp_path)
    rows = [
        {**row, "test/majority_accuracy": 0.01 if row["task"] == "mnli" else None}
        for row in table.rows
    ]
    figure = fig2.draw(replace(table, rows=rows))
    assert "majority class" not in {text.get_text() for text in texts(figure)}
    assert "Outside panel (c): majority class 1.0." in words(figure)


def test_missing_runs_and_matching_errors_are_in_the_figure(tmp_path: Path) -> None:
    sweep = figure1(done=lambda arm, model, seed: (arm, seed) != ("fixed", 1))
    figure = fig1.draw(sweep.table(tmp_path))
    runs, missing = len(sweep.records), len(sweep.records) - len(sweep.results)
    assert missing
    assert f"{missing} of {runs} runs are missing: {missing} not started." in words(figure)
    worst = max(abs(p["matched"]["error"]) for p in sweep.points if p["matched"])
    assert f"total parameters of what they are matched to within {worst:.2%}" in words(figure)
    assert "Mean of 2 to 3 seeds, 95 % interval" in words(figure)


def test_one_seed_has_no_interval_and_the_figure_says_so(tmp_path: Path) -> None:
    figure = fig1.draw(figure1(grid=FEW, seeds=1).table(tmp_path))
    assert "there is no interval" in words(figure)
    for axes in figure.axes:
        for lines in axes.collections:
            assert isinstance(lines, LineCollection)
            assert not lines.get_segments()


def test_runs_of_two_versions_of_the_program_are_not_mixed_silently(tmp_path: Path) -> None:
    table = figure1(grid=FEW).table(tmp_path)
    rows = [{**row, "code": f"commit{row['seed'] % 2}"} for row in table.rows]
    mixed = Table(table.name, table.experiment, {}, table.settings, [*table.columns, "code"], rows)
    assert "Runs of 2 versions of the program: commit0, commit1." in words(fig1.draw(mixed))


def test_points_of_different_devices_are_not_compared_silently(tmp_path: Path) -> None:
    table = figure1(grid=FEW).table(tmp_path)
    rows = [{**row, "device": f"card {row['seed'] % 2}"} for row in table.rows]
    columns = [*dict.fromkeys([*table.columns, "device"])]
    mixed = Table(table.name, table.experiment, {}, table.settings, columns, rows)
    assert "Runs on 2 kinds of device: card 0, card 1." in words(fig1.draw(mixed))
    assert "kinds of device" not in words(fig1.draw(table))


def test_heads_stand_beside_the_lines_or_else_in_the_legend(tmp_path: Path) -> None:
    beside = words(fig1.draw(figure1().table(tmp_path / "beside")))
    assert "16 heads" in beside
    assert "head size d/h, 16 heads" not in beside
    # At the largest embedding size one line has no point, so it ends far from the edge.
    grid = Grid((64, 96, 128, 160), (2, 4, 8, 16, 32, 64))
    legend = words(fig1.draw(figure1(grid=grid).table(tmp_path / "legend")))
    assert "head size d/h, 64 heads" in legend


def test_drawn_again_it_is_the_same_bytes(tmp_path: Path) -> None:
    """In another process, in another order of hashing, after everything drawn was deleted."""
    hostile().write(tmp_path)
    first = {path: path.read_bytes() for path in write_figures(tmp_path, collect(tmp_path))}
    assert {path.name for path in first} == {"fig1.pdf", "fig1.png", "fig1.svg"}
    for path in first:
        path.unlink()
    command = [sys.executable, "-m", "sweeper", "draw", f"--outputs={tmp_path}"]
    subprocess.run(command, check=True, env={"PYTHONHASHSEED": "7"}, capture_output=True)
    assert {path: path.read_bytes() for path in first} == first


def test_files_are_what_they_are_called_and_hold_no_code(tmp_path: Path) -> None:
    files = rendered(figure_of(hostile().table(tmp_path)))
    assert files["pdf"].startswith(b"%PDF")
    assert b"/Type3" not in files["pdf"]
    assert not re.search(rb"(CreationDate|ModDate)", files["pdf"])
    assert files["png"].startswith(b"\x89PNG")
    # 300 dots an inch.
    assert int.from_bytes(files["png"][16:20], "big") == round(DOUBLE_COLUMN * 300)
    tags = {
        element.tag.rpartition("}")[2] for element in ElementTree.fromstring(files["svg"]).iter()
    }
    assert "path" in tags
    assert not tags & {"script", "foreignObject", "image", "a"}


@pytest.mark.parametrize("figure", ["fig9", "style", "../fig1", "os.path"])
def test_an_unknown_figure_is_answered_with_the_known(tmp_path: Path, figure: str) -> None:
    sweep = figure1(grid=FEW, seeds=1)
    sweep.figure = figure
    with pytest.raises(
        UserError, match=r"experiment\.figure of fig1=.*curves, fig1, fig2, fig3, scaling"
    ):
        figure_of(sweep.table(tmp_path))
