"""Whatever a figure is given, its text can be read and its files are safe and the same again."""

import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from itertools import combinations
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from sweeper.results.collect import collect
from sweeper.results.figures import figure_of, write_figures
from sweeper.results.panel import COLUMN, DOUBLE_COLUMN, rendered
from sweeper.store.registry import FIGURES, function, names
from tests.sweeper.results.figures.test_figures import HOSTILE, half, hostile, texts
from tests.sweeper.results.finetuned import Finetuned
from tests.sweeper.results.grids import FEW, PAPER, Grid, by_hand, figure1, theorem1
from tests.sweeper.results.synthetic import Sweep

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
# In `make slow`: of sizes and states between those of the others, and slow to draw.
MORE = ("demo", "paper", "half", "many lines", "contexts, one seed", "fine-tuned, half")
PARAMS = [
    pytest.param(make, id=name, marks=[pytest.mark.slow] if name in MORE else [])
    for name, make in SWEEPS.items()
]


@pytest.fixture(scope="module", params=PARAMS)
def drawn(request, tmp_path_factory):
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


def test_the_figures_are_found():
    assert (
        names(FIGURES)
        == (
            "attention choices collaborative curves fig1 fig2 fig3 scaling sequence_length table "
            "theorem1"
        ).split()
    )


def test_no_text_is_clipped_or_covered_by_other_text(drawn):
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


def test_columns_have_the_width_of_the_conference(drawn):
    for figure in drawn:
        assert figure.get_figwidth() in (COLUMN, DOUBLE_COLUMN)
        assert figure.get_figheight() < 9.0  # the height of a page


def test_drawn_again_it_is_the_same_bytes(tmp_path):
    """In another process, in another order of hashing, after everything drawn was deleted."""
    hostile().write(tmp_path)
    first = {path: path.read_bytes() for path in write_figures(tmp_path, collect(tmp_path))}
    assert {path.name for path in first} == {"fig1.pdf", "fig1.png", "fig1.svg"}
    for path in first:
        path.unlink()
    command = [sys.executable, "-m", "sweeper", "draw", f"--outputs={tmp_path}"]
    subprocess.run(command, check=True, env={"PYTHONHASHSEED": "7"}, capture_output=True)
    assert {path: path.read_bytes() for path in first} == first


def test_files_are_what_they_are_called_and_hold_no_code(tmp_path):
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
