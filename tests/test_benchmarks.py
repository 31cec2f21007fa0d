"""Each benchmark runs at tiny sizes without its peers, and the document says what they left."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.document import document
from benchmarks.measure import interleaved, speed_up, spread

ROOT = Path(__file__).resolve().parents[1]
LEFT = {
    "step": ["step"],
    "loop": ["loop"],
    "packing": ["packing"],
    "data": ["data"],
    "planning": ["planning"],
    "growth": ["heads", "records"],
    "makespan": ["makespan"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LEFT)
def test_runs_and_leaves_lines_that_the_document_shows(name: str, tmp_path: Path) -> None:
    lines = tmp_path / "lines.jsonl"
    command = [sys.executable, "-m", f"benchmarks.{name}", "--smoke", "--lines", str(lines)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    left = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [line["benchmark"] for line in left] == LEFT[name]
    for line in left:
        assert {"time", "load", "hardware", "versions", "code"} <= line.keys()
    shown = document(lines)
    assert shown.count("\n## ") == len(left)
    assert shown.count(f"`python -m benchmarks.{name}`") == len(left)


def test_variants_take_turns_and_the_first_round_is_not_counted() -> None:
    ticks = iter(range(100))
    calls: list[str] = []
    times = interleaved(
        {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")},
        rounds=3,
        clock=lambda: float(next(ticks)),
    )
    assert calls == ["a", "b"] * 4
    assert times == {"a": [1.0] * 3, "b": [1.0] * 3}


def test_ratios_are_paired_within_a_round() -> None:
    times = {"ours": [1.0, 2.0, 4.0], "theirs": [2.0, 4.0, 8.0]}
    assert speed_up(times, "ours", "theirs") == spread([2.0])
    assert spread([1.0, 2.0, 3.0, 4.0, 5.0]) == {
        "median": 3.0,
        "quartile_1": 2.0,
        "quartile_3": 4.0,
    }


def test_the_document_shows_the_newest_line_of_a_shape(tmp_path: Path) -> None:
    facts = {
        "benchmark": "loop",
        "time": "2026-11-21T00:00:00",
        "shape": "small",
        "rounds": 3,
        "speed_up": {"headroom over plain": spread([0.97])},
        "load": 0.1,
        "hardware": {"cpu": "a CPU", "cores": 2, "instructions": "AVX2"},
        "versions": {"torch": "2.13.0"},
        "code": "abc",
    }
    lines = tmp_path / "lines.jsonl"
    older, newer = ({**facts, "ms_per_step": {"headroom": ms}} for ms in (97.3, 53.9))
    lines.write_text(json.dumps(older) + "\n" + json.dumps(newer) + "\n")
    shown = document(lines)
    assert "| headroom | 53.9 |" in shown
    assert "97.3" not in shown
    assert "0.97x" in shown
