"""The data and the HTML of the page: complete, safe and small."""

import base64
import hashlib
import math
import re
from collections import Counter
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from sweeper.__main__ import main
from sweeper.publish import collect_and_judge
from sweeper.results import report
from sweeper.results.palette import PALETTE
from sweeper.results.panel import curve_looks
from sweeper.results.report.data import (
    curves,
    page_data,
    provenance,
)
from sweeper.results.report.page import SCRIPTS, as_html
from sweeper.results.table import RunFiles
from sweeper.store.errors import UserError
from sweeper.store.runs import RunStore
from tests.sweeper.results.grids import FEW, figure1
from tests.sweeper.results.report.reported import (
    PAYLOADS,
    content_of,
    fine_tuned,
    foreign,
    large_sweep,
    small_sweep,
    write_sweep,
)
from tests.sweeper.results.synthetic import Model, Sweep


def data_of(outputs: Path, experiments: list[str] | None = None) -> dict[str, Any]:
    """Return the data of a page of the experiments."""
    return page_data(outputs, *collect_and_judge(outputs, experiments))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the page of a small sweep."""
    return small_sweep(tmp_path_factory.mktemp("small"))


def test_every_run_is_there_with_its_state_verdicts_and_seeds(page: Path) -> None:
    found = content_of(page)
    [experiment] = found["experiments"]
    runs = found["runs"]
    states = Counter(run["state"] for run in runs.values())
    assert set(states) == {"done", "failed", "new"}
    [failed] = [run for run in runs.values() if run["state"] == "failed"]
    assert failed["reason"] == "nan: the loss is nan at step 7 (attempt 1)"
    [svg] = found["figures"].values()
    assert "95 % interval" in svg  # text stays text
    missing = (
        f"2 of {len(runs)} runs are missing: 1 failed, {states['new']} not started."
    )
    assert missing in experiment["figure_in_words"]
    verdicts = experiment["verdicts"]
    assert len(verdicts) == len(figure1().claims)
    assert all(verdict["question"].endswith("?") for verdict in verdicts)
    assert {verdict["answer"] for verdict in verdicts} == {
        "undecided"
    }  # runs are missing
    assert [verdict["effect"] for verdict in verdicts if verdict["effect"]] == [
        "4 heads of 32 at embedding size 64 over 4 heads of 24 at embedding size 96 "
        "worse by a factor of 79.5 [no interval]"
    ]


def test_a_done_run_has_settings_result_curve_and_log(page: Path) -> None:
    found = content_of(page)
    id, run = next(
        (id, run) for id, run in found["runs"].items() if run["state"] == "done"
    )
    settings = run["settings"]
    assert settings["model.heads"] == run["sizes"]["width"] / run["sizes"]["head_size"]
    assert settings["model.attention.name"] == "multi_head"
    assert run["metrics"]["test perplexity per subword"] > 1
    steps, values = run["curves"]["train/loss"]
    assert steps == list(range(1, 42))
    assert values[0] == 8
    assert run["log"][-1].startswith(f"step 3 of {id}")


def test_a_claim_without_runs_is_not_measured_yet(tmp_path: Path) -> None:
    sweep = figure1(seeds=2, done=lambda arm, model, seed: arm == "standard")
    write_sweep(tmp_path, sweep)
    shown = data_of(tmp_path)["experiments"][0]["verdicts"]
    verdicts = dict(zip(sweep.claims, shown, strict=True))
    told = verdicts["fixed_keeps_improving"]
    assert told["answer"] == "not measured yet"
    assert (
        told["sentence"] == "3 of the 4 points that it rests on have no finished run."
    )
    assert verdicts["standard_worsens_beyond"]["answer"] == "undecided"


def test_experiments_with_claims_come_first(tmp_path: Path) -> None:
    for name, claims in {
        "chosen_trials": (),
        "fig1": ("standard_worsens_beyond",),
    }.items():
        sweep = Sweep(name, claims=claims)
        sweep.add("standard", {"model.heads": 4}, Model(64, 4, 16), {0: 60.0})
        write_sweep(tmp_path, sweep)
    assert [one["name"] for one in data_of(tmp_path)["experiments"]] == [
        "fig1",
        "chosen_trials",
    ]


def test_columns_that_are_alike_in_all_rows_are_listed_once(page: Path) -> None:
    [experiment] = content_of(page)["experiments"]
    keys = [column["key"] for column in experiment["columns"]]
    assert {"state", "arm", "point", "seed", "test/perplexity", "reason", "run"} <= set(
        keys
    )
    alike = dict(experiment["alike"])
    assert alike["layers"] == 3
    assert "model.layers" not in keys
    assert all(list(row) == keys for row in experiment["rows"])


def test_a_fine_tuned_experiment_shows_its_measures_its_paper_table_and_its_colours(
    tmp_path: Path,
) -> None:
    [experiment] = content_of(fine_tuned(tmp_path))["experiments"]
    shown = [row["test/accuracy"] for row in experiment["rows"]]
    assert min(filter(None, shown)) > 1, (
        "accuracies are in percent wherever they are called so"
    )
    assert experiment["paper_table"]["blocks"]
    names = [arm["name"] for arm in experiment["arms"]]
    looks = curve_looks(names, [(name, None) for name in names])
    for arm in experiment["arms"]:
        assert PALETTE[arm["colour"]] == looks[arm["name"], None].colour.upper()


def test_policy_names_the_style_and_the_script_and_allows_nothing_else(
    page: Path,
) -> None:
    text = page.read_text("utf-8")
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    for name in ("style", "script"):
        [inline] = re.findall(f"<{name}>(.*?)</{name}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


def test_the_script_of_the_page_makes_no_markup_of_text() -> None:
    markup = r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|fetch\("
    for name in SCRIPTS:
        assert not re.findall(
            markup, files(report).joinpath(name).read_text("utf-8")
        ), name


def test_foreign_text_stays_in_the_data(tmp_path: Path) -> None:
    page = foreign(tmp_path, PAYLOADS[:3])
    text = page.read_text("utf-8")
    [data] = re.findall(r'id="data">(.*?)</script>', text)
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", data)
    [empty] = re.findall(r'id="data">(.*?)</script>', as_html({}, {}))
    assert text.replace(data, empty) == as_html({}, {})
    titles = [one["title"] for one in content_of(page)["experiments"]]
    assert titles == list(reversed(PAYLOADS[:3]))


@pytest.mark.slow
def test_five_hundred_runs_stay_below_half_a_megabyte(tmp_path: Path) -> None:
    page = large_sweep(tmp_path)
    found = content_of(page)
    assert len(found["runs"]) == 500
    assert {len(run["curves"]["train/loss"][0]) for run in found["runs"].values()} == {
        150
    }
    assert all(len(run["log"]) == 40 for run in found["runs"].values())
    assert page.stat().st_size < 5e5


def test_thinned_curves_keep_their_ends_and_gaps() -> None:
    rows = [{"step": step, "train/loss": 1 / step} for step in range(1, 1001)]
    steps, values = curves(rows, 7)["train/loss"]
    assert (steps[0], steps[-1], len(steps)) == (1, 1000, 7)
    assert values == pytest.approx([1 / step for step in steps], rel=1e-3)
    assert curves(rows[:3], 7)["train/loss"][0] == [1, 2, 3]
    gap = [
        {"step": 1, "train/loss": 2.0},
        {"step": 2, "train/loss": math.nan},
        {"step": 3},
    ]
    assert curves(gap, 7) == {"train/loss": ([1, 2], [2.0, None])}


def test_a_damaged_record_is_reported_and_hides_only_itself(tmp_path: Path) -> None:
    sweep = figure1(grid=FEW, seeds=1)
    write_sweep(tmp_path, sweep)
    damaged, other, *_ = sweep.records
    (RunStore(tmp_path).run(damaged).path / "run.json").write_text("{")
    data = data_of(tmp_path)
    runs = data["runs"]
    assert "cannot be read" in runs[damaged]["problem"]
    assert runs[damaged]["state"] == "failed"
    assert "problem" not in runs[other]
    assert runs[other]["curves"]


def test_hours_count_each_run_once_for_every_device_it_took(tmp_path: Path) -> None:
    table = figure1(grid=FEW, seeds=1).table(tmp_path)
    begun, slow, fast, *rest = table.rows
    attempts = [{"versions": {"torch": "2"}, "code": "abc"}]
    files = {row["run"]: RunFiles() for row in (begun, *rest)}
    files |= {
        row["run"]: RunFiles(result={"attempt": 1}, attempts=attempts)
        for row in (slow, fast)
    }
    took = [
        {**slow, "seconds": 7200, "device": "a processor"},
        {**fast, "seconds": 1800, "device": "a card", "devices": 6},
    ]
    table = replace(table, rows=[begun, *took, *rest], files=files)
    found = provenance([table, table])
    assert found["devices"] == [("a processor", 1, 2.0), ("a card", 1, 3.0)]
    assert found["code"] == [("abc", 2)]
    assert found["libraries"] == [("torch 2", 2)]
    [command] = found["commands"]  # each once
    assert command["experiments"] == ["fig1", "fig1"]
    assert command["command"] == "python sweep.py -m experiment=fig1"


def test_the_command_writes_the_page_of_planned_experiments_and_says_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_sweep(tmp_path, figure1(grid=FEW, seeds=1))
    assert main(["report", "fig1", f"--outputs={tmp_path}"]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'report.html'}\n"
    assert [
        one["name"] for one in content_of(tmp_path / "report.html")["experiments"]
    ] == ["fig1"]
    with pytest.raises(UserError, match="fig9"):
        data_of(tmp_path, ["fig9"])


def test_data_is_json_whatever_it_holds(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        as_html(
            {"a": "</script>\ud800\u2028", "<b>": [1, 2.5, None, True, math.inf]}, {}
        )
    )
    shown = content_of(page)
    assert shown["a"] == "</script>\\ud800\\u2028"
    assert shown["<b>"] == [1, 2.5, None, True, None]
