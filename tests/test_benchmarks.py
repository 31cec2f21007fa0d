"""Every benchmark runs at tiny sizes; its tables, and the page of results, follow from records."""

import json
import re

import pandas as pd
import pytest

from benchmarks import width
from benchmarks.__main__ import BENCHMARKS, run
from benchmarks.findings import README, RESULTS, page, points, with_summary
from benchmarks.measure import fill, interleaved
from benchmarks.rates import DOCUMENT as TUNING
from benchmarks.rates import replay
from benchmarks.training_length import draw, with_tables
from tests.end_to_end.test_sweep import ROOT, python

LENGTHS = RESULTS / "training_length" / "README.md"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["decisions", *(name for name in BENCHMARKS if name != "step")]
)
def test_a_benchmark_prints_tables_at_tiny_sizes(name):
    done = python("-m", f"benchmarks.{name}", "--smoke", timeout=None)
    assert "| --- |" in done.stdout


def test_new_results_replace_only_the_older_ones(tmp_path):
    page = tmp_path / "page.md"
    begin = "# Page\n\n## First\n<!-- measured by python -m benchmarks.step -->\n"
    page.write_text(f"{begin}\nold\n\n### also old\n\n## Second\ntext\n")
    fill(page, "benchmarks.step", "new\n")
    assert page.read_text() == f"{begin}\nnew\n\n## Second\ntext\n"
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
    text = LENGTHS.read_text("utf-8")
    assert with_tables(text, LENGTHS.parent) == text
    assert draw(LENGTHS.parent).startswith(b"\x89PNG")


MADE = re.compile(r"<!-- made by .*-->\n(?:\|.*\n)+")  # a generated table
DECIMAL = re.compile(r"\d+\.\d+")
# An effect with its interval, such as 6.0 % (0.5 to 11.8). Generated pages write 6.0 % [0.5, 11.8].
EFFECT = re.compile(r"([\d.]+) %\s+\((-?[\d.]+) to (-?[\d.]+)\)")
# Numbers that are in no record: versions, sizes, runs that were not kept, and differences that a
# page judges otherwise.
NOT_IN_RECORDS = {
    "controls": "0.0",
    "cpu": "2.13",
    "demo": "2.13",
    "fig2-cpu": "2.9 17.6 47.4 76.0",
    "night": "2.13",
    "theorem1": "10.2",
    "training_length": "0.0 2.13 2.3 5.6 10.7 21.0",
    "width": "2.13 5.2 10.8 0.76",
}


PAGES = [*sorted(RESULTS.glob("*/README.md")), README]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.parent.name)
def test_each_number_in_words_is_in_a_record_or_in_a_table_made_from_records(path):
    text = path.read_text("utf-8")
    made = [*MADE.findall(text), *MADE.findall(LENGTHS.read_text("utf-8"))]
    made += [(RESULTS / name).read_text("utf-8") for name in ("README.md", "points.md")]
    folder = path.relative_to(ROOT).parent.name
    claims = [
        *path.parent.glob("*.claims.json"),
        *RESULTS.glob(f"*/{folder}-*.claims.json"),
    ]
    made += [one.read_text("utf-8") for one in claims]
    known = {*DECIMAL.findall(" ".join(made))}
    intervals = re.sub(r"\[(-?[\d.]+), (-?[\d.]+)\]", r"(\1 to \2)", " ".join(made))
    effects = {*EFFECT.findall(intervals)}
    for record in path.parent.glob("*.csv"):
        runs = pd.read_csv(record)
        measured = [runs[name] for name in runs if name.startswith("test/")]
        means = [
            column.groupby(runs["point"]).mean()
            for column in measured
            if "point" in runs
        ]
        for value in pd.concat([*measured, *means, pd.Series(dtype=float)]).dropna():
            known |= {f"{value:.1f}", f"{100 * value:.1f}"}

    words = MADE.sub("", text)
    if path == README:
        words = words.partition("## What was found")[2].partition("## Four commands")[0]
    said = {*DECIMAL.findall(words)}
    assert said
    assert {*EFFECT.findall(words)} <= effects
    assert said - known == {*NOT_IN_RECORDS.get(folder, "").split()}


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
