"""What a figure draws is decided before anything is drawn: curves, places, words."""

from __future__ import annotations

import pytest

from sweeper.results.figures import curves, fig1
from sweeper.results.figures.layout.panel import apart, marks, plain
from sweeper.results.points import points
from tests.sweeper.results.grids import by_hand, figure1
from tests.sweeper.results.synthetic import Model, paper


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
