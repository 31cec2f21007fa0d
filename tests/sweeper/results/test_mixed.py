"""Rows name all that trained their run, and a table says what of it is mixed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sweeper.results.collect import collect
from sweeper.results.points import mixed
from sweeper.store.runs import RunStore
from tests.sweeper.results.synthetic import METRIC
from tests.sweeper.results.test_collect import one_arm


def test_the_version_of_the_program_is_that_of_the_attempt_that_finished(tmp_path: Path) -> None:
    sweep = one_arm({0: None})
    sweep.write(tmp_path)
    run = RunStore(tmp_path).run(sweep.points[0]["run"])
    run.claim({"code": "aaa"}).finish("interrupted")
    winner = run.claim({"code": "bbb-dirty"})
    run.publish_result(winner, {"metrics": {METRIC: 43.0}})
    [row] = collect(tmp_path)[0].rows
    assert row["code"] == "bbb-dirty"


def finished(tmp_path: Path, *attempts: dict[str, Any], seed: int = 0) -> None:
    """Have the run of a seed done by the last of these attempts, of which each continues the one
    before."""
    [id] = [row["run"] for row in collect(tmp_path)[0].rows if row["seed"] == seed]
    run = RunStore(tmp_path).run(str(id))
    for facts in attempts:
        attempt = run.claim({"continues": len(run.attempts()), **facts})
    run.publish_result(attempt, {"metrics": {METRIC: 43.0}, "device": "2 x card"})


def test_a_run_that_was_continued_names_all_that_trained_it_and_is_marked(tmp_path: Path) -> None:
    one_arm({0: None}).write(tmp_path)
    first = {"code": "aaa", "code_parts": {"models": "1", "tasks": "1"}}
    then = {"code": "bbb", "code_parts": {"models": "2", "tasks": "1"}}
    old = {"versions": {"torch": "2.7"}, "hardware": {"cpu": "chip"}}
    new = {"versions": {"torch": "2.8"}, "hardware": {"cpu": "chip", "gpu": "card"}}
    finished(tmp_path, first | old, first | new, then | new)
    [table] = collect(tmp_path)
    told = [table.rows[0][column] for column in ("code", "torch", "device")]
    assert told == ["aaa then bbb", "2.7 then 2.8", "chip then 2 x card"]
    assert {"code", "torch"} <= {*table.columns}
    assert "code_parts" not in table.columns
    assert mixed(table) == [
        "Runs of 2 versions of the program: aaa, bbb; they differ in models.",
        "Runs with 2 versions of PyTorch: 2.7, 2.8.",
        "Runs on 2 kinds of device: 2 x card, chip.",
    ]


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        (
            {"code": "a", "code_parts": {"tasks": "1"}},
            {"code": "b", "code_parts": {"tasks": "1"}},
            "",
        ),
        (
            {"code": "a", "code_parts": {"tasks": "1"}},
            {"code": "a", "code_parts": {"tasks": "2"}},
            "Runs of 2 versions of the program: a; they differ in tasks.",
        ),
        (
            {"code": "a", "code_parts": {"tasks": "1", "tasks/lm1b": "1"}},
            {"code": "b", "code_parts": {"tasks": "1", "tasks/squad": "2"}},
            "",
        ),
        ({"code": "a"}, {"code": "a", "code_parts": {"tasks": "1"}}, ""),
        (
            {"code": "a"},
            {"code": "b", "code_parts": {"tasks": "1"}},
            "Runs of 2 versions of the program: a, b.",
        ),
        ({}, {"code": "b", "code_parts": {"tasks": "1"}}, ""),
    ],
    ids=["commits alike", "one commit", "tasks", "as before", "from before", "unknown"],
)
def test_versions_are_mixed_where_something_that_trains_differs(
    tmp_path: Path, one: dict[str, Any], other: dict[str, Any], told: str
) -> None:
    one_arm({0: None, 1: None}).write(tmp_path)
    finished(tmp_path, one)
    finished(tmp_path, other, seed=1)
    assert "".join(mixed(collect(tmp_path)[0])) == told
