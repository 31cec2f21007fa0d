"""Every benchmark runs at tiny sizes; its tables, and the page of results, follow from records."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import width
from benchmarks.__main__ import BENCHMARKS, run
from benchmarks.findings import (
    README,
    RESULTS,
    page,
    points,
    with_summary,
)
from benchmarks.measure import fill, interleaved
from benchmarks.rates import DOCUMENT as TUNING
from benchmarks.rates import replay
from benchmarks.training_length import with_tables

ROOT = Path(__file__).resolve().parents[1]


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


def test_variants_take_turns_and_the_first_round_is_dropped():
    calls = []

    def variant(name):
        return lambda: calls.append(name) or float(len(calls))

    times = interleaved({name: variant(name) for name in "ab"}, rounds=3)
    assert calls == ["a", "b"] * 4
    assert times == {"a": [3.0, 5.0, 7.0], "b": [4.0, 6.0, 8.0]}


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
        ("Small heads hurt, and", "After short training"),
        ("The second row depends on", "On an H200"),
    ):
        said += readme.partition(first)[2].partition(last)[0]
    numbers = re.findall(r"\d+\.\d", said)
    assert len(numbers) > 9
    text += (RESULTS / "README.md").read_text("utf-8")
    assert all(number in text for number in numbers)


def test_the_page_on_scale_night_has_the_numbers_of_its_verdicts():
    said = (RESULTS / "night" / "README.md").read_text("utf-8")
    records = (RESULTS / "README.md").read_text("utf-8")
    numbers = re.findall(r"\d+\.\d+", said.partition("## How they were")[0])
    assert len(numbers) > 9
    assert all(number in records for number in numbers)


def test_the_table_of_the_readme_follows_from_the_records():
    text = README.read_text("utf-8")
    assert with_summary(text, RESULTS) == text


def test_the_prediction_of_width_follows_from_its_table():
    page = (width.FOLDER / "README.md").read_text("utf-8")
    assert width.with_tables(page) == page
    frozen = json.loads(width.PREDICTION.read_text("utf-8"))
    predicted = width.predict(width.finished())
    assert frozen["fitted_to"] == predicted["fitted_to"]
    for name, gain in predicted["gains"].items():
        assert frozen["gains"][name] == pytest.approx(gain, abs=1e-6)
