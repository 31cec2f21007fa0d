"""The table in a terminal: aligned, complete, harmless."""

from __future__ import annotations

from pathlib import Path

from sweeper.results.paper_tables import summarise
from sweeper.store.numbers import short
from tests.sweeper.results.grids import FEW, figure1
from tests.sweeper.results.synthetic import Model, Sweep


def size(heads: int) -> str:
    return short(Model(64, heads, 32).size["params_total"])


def test_a_line_a_point_with_mean_sd_size_and_match_error(tmp_path: Path) -> None:
    sweep = Sweep(labels={"fixed": "fixed"})
    matched = {"to": "7", "count": "params_total", "target": 1, "achieved": 1, "error": -0.00123}
    sweep.add("fixed", {"model.heads": 2}, Model(64, 2, 32), {0: 41.0, 1: 43.0}, matched)
    sweep.add("fixed", {"model.heads": 3}, Model(64, 3, 32), {0: 40.0, 1: None})
    [title, header, first, second, closing] = summarise(sweep.table(tmp_path))
    assert title == "fig1: test perplexity per subword"
    assert header.split()[:4] == ["arm", "point", "seeds", "mean"]
    assert first.split() == ["fixed", "heads=2", "2/2", "42", "±", "1.4", size(2), "-0.12%"]
    assert second.split() == ["fixed", "heads=3", "1/2", "40", size(3)]
    assert closing == "1 of 4 runs is missing: 1 not started."


def test_columns_are_aligned(tmp_path: Path) -> None:
    [_, header, *rows] = summarise(figure1().table(tmp_path))
    end = header.index("parameters") + len("parameters")
    assert all(row[end - 1].isalnum() and row[end : end + 1] in ("", " ") for row in rows)


def test_no_name_disturbs_the_terminal(tmp_path: Path) -> None:
    sweep = figure1(grid=FEW, done=lambda arm, model, seed: False)
    sweep.labels = {arm + "\x1b[2J\n": label for arm, label in sweep.labels.items()}
    for point in sweep.points:
        point["arm"] += "\x1b[2J\n"
        point["values"]["data.root"] = "\u202e" * 300
    lines = summarise(sweep.table(tmp_path))
    assert all(line.isprintable() and len(line) < 200 for line in lines)
