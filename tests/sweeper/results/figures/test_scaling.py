"""Claims over scale: the effect at each is that of the truth, and the line goes where it points."""

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.text import Text

from sweeper.results.decision import effects
from sweeper.results.figures import scaling
from sweeper.results.judge import verdicts_on
from sweeper.results.statistics.expected_cost import line
from tests.sweeper.results.synthetic import Model, Sweep

SCALES = {100: 16, 400: 24, 1600: 32, 6400: 48}
MARGIN = {"test/perplexity": {"size": "1 %", "reason": "so it is"}}


def over_scale(gain, *, seeds: int = 4) -> Sweep:
    """At each scale heads of a fixed size win `gain(scale)`, a share, over those of size d/h."""
    sweep = Sweep(name="scaling", figure="scaling", claims=("wins_grow_with_scale",), margin=MARGIN)
    sweep.labels = {"standard": "d/h", "fixed": "fixed", "larger": "larger"}
    for scale, (steps, d) in enumerate(SCALES.items()):
        setting = {"model.embedding_size": d, "trainer.steps": steps}
        for heads in (2, 4, 8):
            named = f"embedding_size={d} steps={steps} heads={heads}"
            matched = {"to": f"fixed {named}", "count": "params_total", "error": 0.0}
            won = gain(scale) * math.log2(heads)
            for arm, size, share, match in (
                ("fixed", 29, won, None),
                ("standard", 48 // heads, 0.0, matched),
            ):
                measured = around(40 * math.exp(-share), f"{arm}{named}", seeds)
                values = {**setting, "model.heads": heads}
                sweep.add(arm, values, Model(d, heads, size), measured, match)
        larger = {**setting, "model.embedding_size": 2 * d}
        sweep.add("larger", larger, Model(2 * d, 3, 5), around(39, f"larger{d}", seeds))
    for point in sweep.points:
        sweep.results[point["run"]]["tokens_seen"] = 1024 * point["values"]["trainer.steps"]
    return sweep


def around(middle: float, key: str, seeds: int) -> dict[int, float]:
    draw = random.Random(key)
    return {seed: middle * (1 + draw.gauss(0, 1e-3)) for seed in range(seeds)}


def test_each_scale_has_the_effect_that_is_there(tmp_path):
    table = over_scale(lambda scale: 0.01 * scale).table(tmp_path)
    found = effects(table, "wins_at_equal_size")
    # The mean over 2, 4 and 8 heads of the gain times log2 of these.
    assert [one.value for _, one in found] == pytest.approx([0.0, 0.02, 0.04, 0.06], abs=2e-3)
    assert all(one.low < one.value < one.high for _, one in found)
    assert found[-1][0] > 30 * found[0][0]
    rises = [one.low for _, one in effects(table, "fixed_keeps_improving")]
    assert rises[3] > 0.0 >= rises[0]


@pytest.mark.parametrize(
    ("gain", "expected"),
    [
        (lambda scale: 0.01 * scale, "supported"),
        (lambda scale: 0.03 - 0.01 * scale, "not supported"),
        (lambda scale: 0.02, "no difference beyond the margin"),
    ],
    ids=["grows", "shrinks", "stays"],
)
def test_wins_that_grow_are_told_from_those_that_do_not(tmp_path, gain, expected):
    [verdict] = verdicts_on(over_scale(gain).table(tmp_path))
    assert verdict.verdict == expected, verdict.sentence


def test_a_line_through_exact_points_reaches_a_level_where_it_should():
    places, values = [1.0, 2.0, 3.0], [0.1, 0.2, 0.3]
    fitted = line(places, values, [0.01, 0.02, 0.01])
    assert fitted.at([0.0, 5.0]).values == pytest.approx([0.0, 0.5])
    level, soonest, latest = fitted.reaches(0.4)
    assert level == pytest.approx(4.0, abs=0.02)
    assert 3.0 < soonest < level < latest < 9.0
    widths = np.subtract(*fitted.at([2.0, 3.0, 6.0])[:0:-1])
    assert (np.diff(widths) > 0).all()
    assert fitted.reaches(0.1) == [3.0, 3.0, 3.0]
    assert line(places, values[::-1], [0.01] * 3).reaches(0.4) == [None, None, None]


def test_a_band_widens_by_the_scatter_that_intervals_do_not_allow():
    places, halves = [1.0, 2.0, 3.0, 4.0], [0.01 * 1.96] * 4

    def width(scatter):
        values = [0.1 + scatter, 0.2 - scatter, 0.3 - scatter, 0.4 + scatter]
        return np.ptp([ends[0] for ends in line(places, values, halves).at([2.5])[1:]])

    # The scatter is orthogonal to lines: 4 squares of it over 2 degrees of freedom.
    assert width(0.01) == pytest.approx(math.sqrt(2) * width(0))
    assert width(0.03) == pytest.approx(math.sqrt(18) * width(0))
    assert width(0.005) == width(0)


def test_the_figure_marks_what_is_extrapolated_and_says_where_the_margin_is(tmp_path):
    table = over_scale(lambda scale: 0.001 * scale).table(tmp_path)
    figure = scaling.draw(table)
    figure.draw_without_rendering()
    said = " ".join(text.get_text() for text in figure.findobj(Text)).replace("\n", " ")
    assert "extrapolated" in said
    assert "FLOPs at the margin, if the line goes on" in said
    assert [axes.get_title("left")[:3] for axes in figure.axes] == ["(a)", "(b)", "(c)"]
    first = figure.axes[0]
    assert [one.get_hatch() for one in first.collections] == [None, "///"]
    lost = replace(table, rows=[{**row, "test/perplexity": None} for row in table.rows])
    texts = [text.get_text() for text in scaling.draw(lost).findobj(Text)]
    assert texts.count("fewer than two scales are measured") == 1
    few = replace(table, rows=[row for row in table.rows if row["model.heads"] != 4])
    assert len(scaling.draw(few).axes) == 2  # two numbers of heads are too few for a trend
