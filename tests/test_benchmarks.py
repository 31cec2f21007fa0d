"""Every benchmark runs at tiny sizes; its tables, and the page of results, follow from records."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import BENCHMARKS, DOCUMENT, run
from benchmarks.controls import DOCUMENT as CONTROLS
from benchmarks.controls import counted
from benchmarks.decisions import DOCUMENT as DECISIONS
from benchmarks.findings import RESULTS, changed, hours, kept, page, price
from benchmarks.measure import call, fill, interleaved, present, speed_up, spread
from sweeper.results.collect import collect, write_tables
from sweeper.results.judge import judge
from sweeper.results.verdict import Decision, Verdict
from tests.sweeper.results.grids import FEW, figure1
from tests.sweeper.results.synthetic import contrary, paper

ROOT = Path(__file__).resolve().parents[1]
PLACES = {
    **{f"benchmarks.{name}": DOCUMENT for name in BENCHMARKS},
    "benchmarks.decisions": DECISIONS,
    "benchmarks.tuned_decisions": DECISIONS,
    "benchmarks.controls": CONTROLS,
    "tests.faults": ROOT / "docs" / "faults.md",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["decisions", "tuned_decisions", *(name for name in BENCHMARKS if name != "step")]
)
def test_a_benchmark_prints_tables_at_tiny_sizes(name):
    command = [sys.executable, "-m", f"benchmarks.{name}", "--smoke"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "| --- |" in done.stdout


@pytest.mark.parametrize("module", PLACES)
def test_every_document_has_a_place_for_its_results(module):
    marker = f"<!-- measured by python -m {module} -->\n"
    assert PLACES[module].read_text("utf-8").count(marker) == 1


def test_new_results_replace_only_the_older_ones(tmp_path):
    page = tmp_path / "page.md"
    about, marker = "# Page\n\n## First\n", "<!-- measured by python -m benchmarks.step -->\n"
    page.write_text(f"{about}{marker}\nold\n\n### also old\n\n## Second\ntext\n")
    fill(page, "benchmarks.step", "new\n")
    assert page.read_text() == f"{about}{marker}\nnew\n\n## Second\ntext\n"
    with pytest.raises(SystemExit, match=r"page\.md: expected a line <!-- .*sweeps"):
        fill(page, "benchmarks.sweeps", "new")


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


SETTING = {"old": {"scale": "cpu", "text": "two books"}}


def results(folder, truth):
    """Write small results as old records have them: tables and verdicts without a plan."""
    made = figure1(truth, FEW).write(folder / "outputs")
    tables = write_tables(folder / "kept" / "old", collect(made, ["fig1"]))
    judge(folder / "kept" / "old", tables)
    (folder / "kept" / "old" / "tables" / "fig1.json").unlink()
    return folder / "kept"


@pytest.fixture
def one(tmp_path, monkeypatch):
    about = tmp_path / "findings.toml"
    about.write_text('[old]\nscale = "cpu"\ntext = "two books"\n')
    monkeypatch.setattr("benchmarks.findings.SETTINGS", about)
    return results(tmp_path / "one", paper)


def test_the_page_in_the_repository_follows_from_its_records():
    assert (RESULTS / "README.md").read_text("utf-8") == page(RESULTS)


def test_answer_effect_seeds_and_hours_are_those_of_the_records(one):
    [found] = kept(one, SETTING)
    assert (found.experiment, found.scale, found.seeds) == ("fig1", "cpu", "3")
    assert hours(found.runs) == pytest.approx(len(found.runs) * 12.5 / 3600)
    text = page(one)
    rows = [line for line in text.splitlines() if line.startswith("| fig1 |")]
    assert len(rows) == len(found.verdicts) == 3
    for row, verdict in zip(rows, found.verdicts, strict=True):
        assert all(words in row for words in (verdict.claim, str(verdict.label), "; 3 seeds"))
    assert "### At cpu scale\n\n| experiment | claim | measured by | answer |" in text


def test_texts_have_columns_and_answers_that_changed_are_listed_with_their_reason(one, tmp_path):
    [path] = one.rglob("*.claims.json")
    assert "No answer differs from the one kept before." in page(one)
    earlier = path.parent / "earlier" / path.name
    earlier.parent.mkdir()
    before = json.loads(path.read_text())
    first, *others = before["verdicts"]
    before["verdicts"] = [{**first, "verdict": "not supported"}, {**first, "claim": "old"}, *others]
    earlier.write_text(json.dumps(before))
    setting = {**SETTING["old"], "text": "93 text files, 7 MB, folder novels"}
    about = path.with_name(path.name.replace(".claims.json", ".json"))
    about.write_text(json.dumps({"experiment": setting}))
    [found] = kept(one, {})
    rows = changed([found], {"fig1.old": "It asked too much."}).splitlines()[2:]
    [now, gone] = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]
    assert (now[2], now[3][:17]) == ("cpu, novels", "**not supported**")
    assert (gone[1], gone[4], gone[5]) == ("`old`", "not asked", "It asked too much.")
    assert "### At cpu scale\n\n| experiment | claim | measured by | novels |" in page(one)


def test_a_price_has_two_digits_and_takes_an_interval():
    def priced(low):
        numbers = {"price": {"seeds": 9402, "hours": 62.1}, "contrasts": [{"low": low}]}
        return price(Verdict("claim", Decision.UNDECIDED, "", numbers, ""))

    assert priced(0.1) == "; to decide: about 9,400 seeds a point, 62 device hours"
    assert priced(None) == ""


def test_equal_records_give_equal_bytes_and_others_do_not(one, tmp_path):
    moved = Path(shutil.copytree(one, tmp_path / "moved"))
    assert page(moved) == page(one)
    assert page(results(tmp_path / "other", contrary)) != page(one)


def test_the_table_of_controls_counts_every_verdict():
    asked = {"figure": "fig1", "claim": "claim", "text": "planted"}
    counts = enumerate(Decision, 1)
    rows = [asked | {"verdict": str(decision)} for n, decision in counts for _ in range(n)]
    assert counted(rows).endswith("| 1 | 2 | 3 | 4 |")
