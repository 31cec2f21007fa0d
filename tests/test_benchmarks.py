"""Each benchmark runs at tiny sizes without its peers, and the document shows what it leaves."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from benchmarks.__main__ import BENCHMARKS, failures
from benchmarks.apart import apart
from benchmarks.document import document
from benchmarks.measure import call, interleaved, present, speed_up, spread

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", BENCHMARKS)
def test_leaves_a_line_that_the_document_shows(name: str, tmp_path: Path) -> None:
    if name == "files" and not shutil.which("strace"):
        pytest.skip("strace is not installed")
    lines = tmp_path / "lines.jsonl"
    command = [sys.executable, "-m", f"benchmarks.{name}", "--smoke", "--lines", str(lines)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    [line] = [json.loads(line) for line in lines.read_text().splitlines()]
    assert line["benchmark"] == name
    assert {"time", "load", "hardware", "versions", "code"} <= line.keys()
    [title] = [row for row in document(lines).splitlines() if row.startswith("## ")]
    assert title.endswith(f"(`python -m benchmarks.{name}`)")


def test_every_benchmark_is_run_with_the_others() -> None:
    named = [
        path.stem for path in (ROOT / "benchmarks").glob("*.py") if "leave(" in path.read_text()
    ]
    assert sorted(BENCHMARKS) == sorted(set(named) - {"measure"})


def test_where_one_fails_the_next_are_run(capfd: pytest.CaptureFixture[str]) -> None:
    assert failures(["no_such_module", "status"], "--help") == ["no_such_module"]
    assert "Asks for the status" in capfd.readouterr().out


def test_a_peer_that_is_missing_is_told_with_what_installs_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert present("json")
    assert not capsys.readouterr().err
    assert not present("no_such_module")
    [sentence] = capsys.readouterr().err.splitlines()
    assert sentence.startswith("no_such_module is not installed")
    _, command = sentence.split("; install it with ")
    python, *pip = shlex.split(command)
    assert Path(python).samefile(sys.executable)
    assert pip[:3] == ["-m", "pip", "install"]
    assert {"transformers", "x-transformers"} < {Requirement(peer).name for peer in pip[3:]}


def test_a_command_that_fails_is_shown_with_what_it_printed() -> None:
    with pytest.raises(SystemExit, match=r"(?s) failed:\nbefore\n.*ZeroDivisionError"):
        call("-c", "print('before'); 1 / 0")


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


def _process_once() -> Callable[[], None]:
    processes = {os.getpid()}

    def run() -> None:
        assert processes == {os.getpid()}, "made in another process"

    return run


def _nothing_made() -> Callable[[], None]:
    raise ZeroDivisionError


def test_variants_apart_are_made_where_they_run_and_take_turns() -> None:
    times = apart({"a": _process_once, "b": _process_once}, rounds=3)
    assert {name: len(values) for name, values in times.items()} == {"a": 3, "b": 3}


def test_a_variant_apart_that_fails_ends_the_benchmark(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^b failed"):
        apart({"a": _process_once, "b": _nothing_made}, rounds=3)
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_ratios_are_paired_within_a_round() -> None:
    times = {"ours": [1.0, 2.0, 4.0], "theirs": [2.0, 4.0, 8.0]}
    assert speed_up(times, "ours", "theirs") == spread([2.0])
    assert spread([1.0, 2.0, 3.0, 4.0, 5.0]) == {
        "median": 3.0,
        "quartile_1": 2.0,
        "quartile_3": 4.0,
    }


def test_a_document_of_nothing_is_refused(tmp_path: Path) -> None:
    lines, page = tmp_path / "none.jsonl", tmp_path / "page.md"
    typed = ["benchmarks.document", "--lines", str(lines), "--document", str(page)]
    done = subprocess.run([sys.executable, "-m", *typed], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "none.jsonl: expected a file of lines" in done.stderr
    assert not page.exists()


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
