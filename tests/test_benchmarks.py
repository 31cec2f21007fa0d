"""Every benchmark runs at tiny sizes; its tables, and the page of results, follow from records."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import BENCHMARKS, DOCUMENT, run
from benchmarks.controls import DOCUMENT as CONTROLS
from benchmarks.controls import counted
from benchmarks.decisions import DOCUMENT as DECISIONS
from benchmarks.findings import (
    README,
    RESULTS,
    page,
    points,
    with_summary,
)
from benchmarks.measure import call, fill, interleaved, present, speed_up, spread
from benchmarks.rates import DOCUMENT as TUNING
from benchmarks.rates import replay
from benchmarks.training_length import with_tables
from sweeper.results.verdict import Decision

ROOT = Path(__file__).resolve().parents[1]
PLACES = {
    **{f"benchmarks.{name}": DOCUMENT for name in BENCHMARKS},
    "benchmarks.decisions": DECISIONS,
    "benchmarks.controls": CONTROLS,
    "benchmarks.rates": TUNING,
    "benchmarks.rates --train": TUNING,
    "tests.faults": ROOT / "docs" / "faults.md",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["decisions", *(name for name in BENCHMARKS if name != "step")]
)
def test_a_benchmark_prints_tables_at_tiny_sizes(name):
    command = [sys.executable, "-m", f"benchmarks.{name}", "--smoke"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "| --- |" in done.stdout


@pytest.mark.parametrize("module", PLACES)
def test_every_document_has_a_place_for_its_results(module):
    marker = f"<!-- measured by python -m {module} -->\n"
    assert PLACES[module].read_text("utf-8").count(marker) == 1


def test_new_results_replace_only_the_older_ones(tmp_path):
    page = tmp_path / "page.md"
    about, marker = (
        "# Page\n\n## First\n",
        "<!-- measured by python -m benchmarks.step -->\n",
    )
    page.write_text(f"{about}{marker}\nold\n\n### also old\n\n## Second\ntext\n")
    fill(page, "benchmarks.step", "new\n")
    assert page.read_text() == f"{about}{marker}\nnew\n\n## Second\ntext\n"
    with pytest.raises(SystemExit, match=r"page\.md: expected a line <!-- .*sweeps"):
        fill(page, "benchmarks.sweeps", "new")


def test_the_page_on_tuning_has_the_replay_of_its_rule_on_kept_trials():
    assert replay() in TUNING.read_text("utf-8")


@pytest.mark.slow
def test_a_benchmark_that_fails_does_not_stop_the_next(capfd):
    assert run(["no_such_module", "step"], smoke=True) == ["no_such_module"]
    said = capfd.readouterr().out
    assert "headroom" in said
    assert "| --- |" in said


def test_a_missing_peer_is_reported_with_a_remedy(capsys):
    assert present("json")
    assert not capsys.readouterr().err
    assert not present("no_such_module")
    assert capsys.readouterr().err.startswith("no_such_module is not installed")


def test_a_command_that_fails_is_shown_with_its_output():
    with pytest.raises(SystemExit, match=r"(?s) failed:\nbefore\n.*ZeroDivisionError"):
        call("-c", "print('before'); 1 / 0")


def test_variants_take_turns_and_the_first_round_is_dropped():
    calls = []

    def variant(name):
        return lambda: calls.append(name) or float(len(calls))

    times = interleaved({name: variant(name) for name in "ab"}, rounds=3)
    assert calls == ["a", "b"] * 4
    assert times == {"a": [3.0, 5.0, 7.0], "b": [4.0, 6.0, 8.0]}


def test_ratios_are_paired_within_a_round():
    times = {"ours": [1.0, 2.0, 4.0], "theirs": [2.0, 4.0, 8.0]}
    assert speed_up(times, "ours", "theirs") == "2x (2 to 2)"
    assert spread([1.0, 2.0, 3.0, 4.0, 5.0]) == "3 (2 to 4)"


def test_the_page_in_the_repository_follows_from_its_records():
    assert (RESULTS / "README.md").read_text("utf-8") == page(RESULTS)
    assert (RESULTS / "points.md").read_text("utf-8") == points(RESULTS)


def test_the_tables_by_length_of_training_follow_from_their_runs():
    path = RESULTS / "training_length" / "README.md"
    text = path.read_text("utf-8")
    assert with_tables(text, path.parent) == text
    readme = README.read_text("utf-8")
    said = ""
    for first, last in (
        ("Small heads hurt, and", "The table is about"),
        ("The length and the start of training decide", "On an H200"),
    ):
        said += readme.partition(first)[2].partition(last)[0]
    numbers = re.findall(r"\d+\.\d", said)
    assert len(numbers) > 9
    assert all(number in text for number in numbers)


def test_the_table_of_the_readme_follows_from_the_records():
    text = README.read_text("utf-8")
    assert with_summary(text, RESULTS) == text


def test_the_table_of_controls_counts_every_verdict():
    asked = {
        "figure": "fig1",
        "claim": "claim",
        "measure": "accuracy",
        "text": "planted",
    }
    counts = enumerate(Decision, 1)
    rows = [
        asked | {"verdict": str(decision)} for n, decision in counts for _ in range(n)
    ]
    assert counted(rows).endswith("| 1 | 2 | 3 | 4 |")
