"""The data and the HTML of the page: complete, safe and small."""

import base64
import hashlib
import math
import re
from collections import Counter
from dataclasses import replace

import pytest

from sweeper.results.palette import PALETTE, arm_looks
from sweeper.results.panel import curve_styles
from sweeper.results.report.data import curves, provenance
from sweeper.results.report.page import as_html
from sweeper.results.table import RunFiles
from sweeper.store.runs import RunStore
from tests.sweeper.results.report.reported import (
    content_of,
    fine_tuned,
    page_of,
    write_sweep,
)
from tests.sweeper.results.synthetic import few, figure1, one_arm


def test_every_run_is_there_with_its_state_verdicts_and_seeds(small):
    found = content_of(small)
    [experiment], [svg] = found["experiments"], found["figures"].values()
    runs = found["runs"].values()
    states = Counter(run["state"] for run in runs)
    assert states == {"done": 6, "failed": 1, "new": 1}
    reasons = {run["reason"] for run in runs if run["state"] == "failed"}
    assert reasons == {"nan: the loss is nan at step 7 (attempt 1)"}
    assert "95 % interval" in svg  # the SVG keeps text as text
    missing = "2 of 8 runs missing: 1 failed, 1 not started."
    assert missing in experiment["figure_in_words"]

    verdicts = experiment["verdicts"]
    assert all(verdict["question"].endswith("?") for verdict in verdicts)
    assert [verdict["answer"] for verdict in verdicts] == ["undecided"] * 3
    [effect] = [verdict["effect"] for verdict in verdicts if verdict["effect"]]
    assert effect.endswith("worse by a factor of 79.5 [no interval]")


def test_a_claim_without_runs_is_not_measured_yet(tmp_path):
    sweep = figure1(seeds=2, done=lambda arm, model, seed: arm == "standard")
    write_sweep(tmp_path, sweep)
    shown = content_of(page_of(tmp_path))["experiments"][0]["verdicts"]
    told = dict(zip(sweep.claims, shown, strict=True))["fixed_keeps_improving"]
    assert told["answer"] == "not measured yet"
    words = "1 of the claim's 4 points have results."
    assert told["sentence"] == words


def test_columns_that_are_alike_in_all_rows_are_listed_once(small):
    [experiment] = content_of(small)["experiments"]
    keys = [column["key"] for column in experiment["columns"]]
    always = {"state", "arm", "point", "seed", "test/perplexity", "reason", "run"}
    assert always <= set(keys)
    assert dict(experiment["alike"])["layers"] == 3
    assert "model.layers" not in keys
    assert all(list(row) == keys for row in experiment["rows"])


def test_a_fine_tuned_experiment_shows_its_measures_its_paper_table_and_its_colours(
    tmp_path,
):
    [experiment] = content_of(fine_tuned(tmp_path))["experiments"]
    accuracies = [row["test/accuracy"] for row in experiment["rows"]]
    assert min(filter(None, accuracies)) > 1, "in per cent"
    assert experiment["paper_table"]["blocks"]
    arms = experiment["arms"]
    looks = arm_looks([arm["name"] for arm in arms]).values()
    drawn = [
        style["color"].upper() for look in looks for style in curve_styles(look, 1)
    ]
    assert [PALETTE[arm["colour"]] for arm in arms] == drawn


def test_policy_names_the_style_and_the_script_and_allows_nothing_else(small):
    text = small.read_text("utf-8")
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    for name in ("style", "script"):
        [inline] = re.findall(f"<{name}>(.*?)</{name}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


@pytest.mark.slow
def test_five_hundred_runs_stay_below_half_a_megabyte(tmp_path):
    points = {2 + place: [43.0 - place / 97, 43.3] for place in range(250)}
    write_sweep(tmp_path, one_arm("model.heads", points))
    page = page_of(tmp_path)
    runs = content_of(page)["runs"].values()
    assert len(runs) == 500
    assert {len(run["curves"]["train/loss"][0]) for run in runs} == {150}
    assert {len(run["log"]) for run in runs} == {40}
    assert page.stat().st_size < 5e5


def test_thinned_curves_keep_their_ends_and_gaps():
    rows = [{"step": step, "train/loss": 1 / step} for step in range(1, 1001)]
    steps, values = curves(rows, 7)["train/loss"]
    assert (steps[0], steps[-1], len(steps)) == (1, 1000, 7)
    assert values == pytest.approx([1 / step for step in steps], rel=1e-3)
    gap = [{"step": 1, "train/loss": 2.0}, {"step": 2, "train/loss": math.nan}]
    assert curves([*gap, {"step": 3}], 7) == {"train/loss": ([1, 2], [2.0, None])}


def test_a_damaged_record_is_reported_and_hides_only_itself(tmp_path):
    sweep = few()
    write_sweep(tmp_path, sweep)
    damaged, other, *_ = sweep.records
    (RunStore(tmp_path).run(damaged).path / "run.json").write_text("{")
    runs = content_of(page_of(tmp_path))["runs"]
    assert "cannot be read" in runs[damaged]["problem"]
    assert runs[damaged]["state"] == "failed"
    assert "problem" not in runs[other]
    assert runs[other]["curves"]


def test_hours_count_each_run_once_for_every_device_it_took():
    table = few().table()
    _, slow, fast, *_ = table.rows
    slow |= {"seconds": 7200, "device": "a processor"}
    fast |= {"seconds": 1800, "device": "a card", "devices": 6}
    attempts = [{"versions": {"torch": "2"}, "code": "abc"}]
    done = RunFiles(result={"attempt": 1}, attempts=attempts)
    files = {row["run"]: RunFiles() for row in table.rows}
    table = replace(table, files=files | {slow["run"]: done, fast["run"]: done})
    found = provenance([table, table])
    [command] = found.pop("commands")  # both tables share one command
    assert command["experiments"] == ["fig1", "fig1"]
    assert command["command"] == "python sweep.py -m experiment=fig1"
    assert found == {
        "devices": [("a processor", 1, 2.0), ("a card", 1, 3.0)],
        "code": [("abc", 2)],
        "libraries": [("torch 2", 2)],
    }


def test_data_is_json_whatever_it_holds(tmp_path):
    page = tmp_path / "page.html"
    data = {"a": "</script>\ud800\u2028", "<b>": [1, 2.5, None, True, math.inf]}
    page.write_text(as_html(data, {}))
    shown = content_of(page)
    assert shown["a"] == "</script>\\ud800\\u2028"
    assert shown["<b>"] == [1, 2.5, None, True, None]
