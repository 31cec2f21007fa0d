"""The page of results follows from the records beside it."""

import shutil
from pathlib import Path

import pytest

from benchmarks.findings import RESULTS, hours, kept, page
from sweeper.results.collect import collect, write_tables
from sweeper.results.judge import judge
from tests.sweeper.results.grids import FEW, figure1
from tests.sweeper.results.synthetic import contrary, paper

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
    rows = [line for line in page(one).splitlines() if line.startswith("| fig1 |")]
    assert len(rows) == len(found.verdicts) == 3
    for row, verdict in zip(rows, found.verdicts, strict=True):
        assert verdict.claim in row
        assert f"{verdict.label}" in row
        assert "3 seeds, 0.0" in row
    assert "| experiment | claim | measured by | cpu |" in page(one)


def test_equal_records_give_equal_bytes_and_others_do_not(one, tmp_path):
    moved = Path(shutil.copytree(one, tmp_path / "moved"))
    assert page(moved) == page(one)
    assert page(results(tmp_path / "other", contrary)) != page(one)
