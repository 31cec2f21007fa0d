"""Every point of the newest plan has its row, exported exactly; trials choose by validation."""

import csv
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from sweeper.results import collect as module
from sweeper.results.choices import choices, diverged, settled
from sweeper.results.collect import collect, write_tables
from sweeper.results.paper_tables import summarise
from sweeper.results.points import missing, mixed, points, tuned_in_words, unfinished
from sweeper.results.table import Table, exported, write_table
from sweeper.store.errors import UserError
from sweeper.store.plans import write_plan
from sweeper.store.runs import RunStore
from tests.sweeper.results.synthetic import (
    FINETUNE,
    METRIC,
    MODELS,
    Model,
    Sweep,
    figure1,
    finetuned,
    score,
)

SMALL = Model(64, 2, 32)


def one_arm(values: dict[int, float | None] | None = None, *, name: str = "small") -> Sweep:
    sweep = Sweep(name=name, labels={"fixed": "fixed"}, claims=())
    sweep.add("fixed", {"model.heads": 2}, SMALL, values or {0: 43.7})
    return sweep


def test_a_row_a_point_and_seed_whose_columns_are_described(tmp_path):
    sweep = figure1(seeds=2)
    for point in sweep.points:
        point["values"]["task.sequence_length"] = 257
    table = sweep.table(tmp_path)
    keys = [(row["arm"], row["point"], row["seed"]) for row in table.rows]
    assert len(keys) == len(set(keys)) == len(sweep.points)
    assert [row["run"] for row in table.rows] == [point["run"] for point in sweep.points]
    for column in table.columns:
        free = column.startswith(("model.", "test/", "task."))
        assert free or column in (module.__doc__ or ""), column


def test_a_finished_run_fills_every_column(tmp_path):
    sweep = one_arm()
    [result] = sweep.results.values()
    result["energy_joules"] = 61.5  # as an earlier version measured it
    [row] = sweep.table(tmp_path).rows
    told = [row[key] for key in ("arm", "point", "seed", "state")]
    assert told == ["fixed", "heads=2", 0, "done"]
    assert row["model.head_size"] == 32  # resolved: the config says null
    assert row["model.attention.name"] == "multi_head"
    assert row["params_total"] == SMALL.size["params_total"]
    assert row[METRIC] == 43.7
    assert (row["steps"], row["seconds"], row["device"]) == (97, 12.5, "a CPU, 2 threads")
    assert "energy_joules" not in row


def test_the_match_is_in_the_row(tmp_path):
    rows = figure1(seeds=1).table(tmp_path).rows
    [first, _] = [row for row in rows if row["arm"] == "matched"]
    assert first["matched_to"] == "standard embedding_size=96 heads=8"
    assert first["match_count"] == "params_total"
    target = next(r for r in rows if r["point"] == "embedding_size=96 heads=8")
    assert first["match_error"] == first["params_total"] / target["params_total"] - 1
    assert all(row.get("matched_to") is None for row in rows if row["arm"] != "matched")


def test_unfinished_runs_keep_their_row_and_their_size(tmp_path):
    sweep = one_arm({0: None, 1: None, 2: None, 3: 43.0})
    sweep.write(tmp_path)
    store = RunStore(tmp_path)
    failed, stopped, *_ = (store.run(point["run"]) for point in sweep.points)
    failed.claim({}).finish("nan", "the loss is nan at step 7")
    stopped.claim({}).finish("interrupted")
    [table] = collect(tmp_path)
    assert [row["state"] for row in table.rows] == ["failed", "interrupted", "new", "done"]
    assert "the loss is nan at step 7" in table.rows[0]["reason"]
    for row in table.rows[:3]:
        assert row["params_total"] == SMALL.size["params_total"]
        assert row.get(METRIC) is None


def test_a_planned_run_without_a_record_has_a_row(tmp_path):
    sweep = one_arm({0: None})
    sweep.records, records = {}, sweep.records
    plan = {**sweep.plan, "runs": {id: {"size": r["size"]} for id, r in records.items()}}
    write_plan(tmp_path, plan)
    [row] = collect(tmp_path)[0].rows
    assert (row["state"], row["model.heads"], row["width"]) == ("new", 2, 64)


def test_points_are_told_apart_where_two_keys_end_alike(tmp_path):
    sweep = Sweep(name="names", labels={"grid": "grid"}, claims=())
    for kind in ("multi_head", "collaborative"):
        values = {"model.attention.name": kind, "task.name": "lm1b", "model.heads": 3}
        sweep.add("grid", values, Model(64, 3, 32), {0: 43.0})
    table = sweep.table(tmp_path)
    [first, _] = [row["point"] for row in table.rows]
    assert first == "model.attention.name=multi_head task.name=lm1b heads=3"
    assert table.settings[first]["task.name"] == "lm1b"


def test_collecting_twice_gives_the_same_bytes_and_touches_no_record(tmp_path):
    figure1(seeds=2, done=lambda arm, model, seed: seed == 0).write(tmp_path)

    def records():
        files = [path for path in (tmp_path / "runs").rglob("*") if path.is_file()]
        return {path: path.read_bytes() for path in files}

    before = records()
    [table] = write_tables(tmp_path, collect(tmp_path))
    path = exported(tmp_path, table)
    first = path.read_bytes()
    assert write_tables(tmp_path, collect(tmp_path, ["fig1"])) == [table]
    assert path.read_bytes() == first
    assert records() == before
    assert sorted(p.name for p in path.parent.iterdir()) == ["fig1.csv", "fig1.json"]


def test_a_cell_is_nothing_a_truth_value_a_number_or_words(tmp_path):
    sweep = one_arm()
    values = {"data.pieces": [7, 11], "data.shuffled": True, "data.name": "", "data.root": None}
    for point in sweep.points:
        point["values"] |= values
    [result] = sweep.results.values()
    result["device"] = ""
    [row] = sweep.table(tmp_path).rows
    wanted = {"data.pieces": "[7,11]", "data.shuffled": True, "model.heads": 2}
    assert {key: row[key] for key in wanted} == wanted
    assert [row[key] for key in ("data.name", "data.root", "device")] == [None] * 3
    assert all(cell is None or isinstance(cell, bool | int | float | str) for cell in row.values())


def finished(tmp_path: Path, *attempts: dict[str, Any], seed: int = 0, **result: Any) -> None:
    """Finish the run of a seed by the last of these attempts; each continues the one before."""
    [id] = [row["run"] for row in collect(tmp_path)[0].rows if row["seed"] == seed]
    run = RunStore(tmp_path).run(str(id))
    for facts in attempts:
        attempt = run.claim({"continues": len(run.attempts()), **facts})
    run.publish_result(attempt, {"metrics": {METRIC: 43.0}, "device": "2 x card", **result})


def test_a_run_that_was_continued_names_all_that_trained_it_and_is_marked(tmp_path):
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


def test_runs_on_data_that_differ_though_the_text_is_one_are_marked(tmp_path):
    one_arm({0: None, 1: None}).write(tmp_path)
    for seed, digest in enumerate(("ab" * 32, "cd" * 32)):
        finished(tmp_path, {}, seed=seed, data={"sha256": digest})
    told = "Runs on 2 preparations of one text that differ: abababab, cdcdcdcd."
    assert mixed(collect(tmp_path)[0]) == [told]


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        (("a", {"tasks": "1"}), ("b", {"tasks": "1"}), ""),
        (("a", {"tasks": "1"}), ("a", {"tasks": "2"}), "a; they differ in tasks."),
        (("a", {"tasks": "1", "tasks/lm1b": "1"}), ("b", {"tasks": "1", "tasks/squad": "2"}), ""),
        (("a",), ("a", {"tasks": "1"}), ""),
        (("a",), ("b", {"tasks": "1"}), "a, b."),
        ((), ("b", {"tasks": "1"}), ""),
    ],
    ids=["commits alike", "one commit", "tasks", "as before", "from before", "unknown"],
)
def test_versions_are_mixed_where_something_that_trains_differs(tmp_path, one, other, told):
    one_arm({0: None, 1: None}).write(tmp_path)
    for seed, facts in enumerate((one, other)):
        finished(tmp_path, dict(zip(("code", "code_parts"), facts, strict=False)), seed=seed)
    expected = [f"Runs of 2 versions of the program: {told}"] if told else []
    assert mixed(collect(tmp_path)[0]) == expected


@pytest.mark.parametrize("metric", [m for metrics in FINETUNE.values() for m in metrics])
def test_a_point_holds_the_seeds_of_the_task_that_the_metric_is_of(tmp_path, metric):
    table = finetuned(tmp_path, seeds=3)
    assert missing(table, metric) == ("", 0, 9)
    for point, model in zip(points(table, metric), MODELS.values(), strict=True):
        times = 100 if metric == "test/accuracy" else 1  # as it is shown: in per cent
        assert point.values == {seed: times * score(metric, model, seed) for seed in range(3)}


def test_what_is_unfinished_counts_pre_training_too(tmp_path):
    table = finetuned(tmp_path, done=lambda task, heads, seed: task != "pretraining" or heads != 12)
    assert unfinished(table) == ("1 not started", 1, 3 + 3 * 2 * 2)
    found = points(table, "test/loss")  # a metric of no fine-tuning task
    assert [list(point.runs) for point in found] == [[0]] * len(MODELS)


def test_the_terminal_shows_every_metric(tmp_path):
    lines = summarise(finetuned(tmp_path, "fig2"))
    assert lines[0] == "fig2: SQuAD and MNLI, standard against fixed head size"
    for words in ("SQuAD F1", "SQuAD exact match", "MNLI accuracy (%)"):
        assert sum(line.startswith(words + "  ") for line in lines) == 3  # one an arm


CELLS: dict[str, Any] = {
    "words": 'heads=8, "quoted"\nand\rmore\0\x1b[31m',
    "whole": 29_384_705,
    "fraction": 0.1 + 0.2,
    "tiny": -1.5e-300,
    "yes": True,
    "nothing": None,
    "run": "1e5",
    "model.name": "1_000",
    "test/loss": "nan",
    "arm": "true",
}
FORMULAS = ["=cmd()", "+1", "-rf", "@SUM(A1)", "\tx", "\rx", "'quoted", "-5"]


def table(rows: list[dict[str, Any]], name: str = "fig1") -> Table:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    return Table(name, {"metric": "test/loss", "arms": {}}, {}, {"a=1": {"a": 1}}, columns, rows)


def cells(path: Path) -> list[list[str]]:
    """The lines of a .csv, as its module reads them."""
    with path.open(newline="") as file:
        return list(csv.reader(file))


def test_every_cell_is_there_as_text_that_says_it_exactly(tmp_path):
    path = write_table(tmp_path, table([CELLS, {"arm": "\ud800"}]))
    heads, line, half_a_letter = cells(path)
    told = {True: "true", None: ""}
    assert heads == list(CELLS)
    assert line == [told[v] if v is True or v is None else str(v) for v in CELLS.values()]
    assert float(line[2]) == 0.1 + 0.2
    assert half_a_letter[-1] == "\\ud800"
    assert pd.read_csv(path)["whole"][0] == 29_384_705


def test_what_the_rows_are_of_stands_beside_them(tmp_path):
    path = write_table(tmp_path, table([CELLS]))
    about = json.loads(path.with_suffix(".json").read_text())
    assert about.pop("format") == 1
    assert about == {
        "name": "fig1",
        "experiment": {"metric": "test/loss", "arms": {}},
        "provenance": {},
        "settings": {"a=1": {"a": 1}},
    }


@pytest.mark.parametrize("text", FORMULAS)
def test_words_that_look_like_a_formula_are_marked_as_text(tmp_path, text):
    given = table([{"arm": text, "model.name": text, text: 7}])
    path = write_table(tmp_path, given)
    heads, line = cells(path)
    assert [heads[2], *line[:2]] == [f"'{text}"] * 3


RATE, LOSS = "optimizer.learning_rate", "validation/loss"
DIVERGED = {"state": "failed", "reason": "nan: the training loss is nan (attempt 1)"}


def trials(measured, *, test=1.0):
    """The trials of one arm; `measured`: rate -> the validation loss of each seed."""
    rows = [
        {"experiment": "x_trials", "arm": "a", "point": f"heads=2 learning_rate={rate}", RATE: rate,
         "seed": seed, "run": f"r{rate}-s{seed}", "test/loss": test * rate, LOSS: loss,
         "state": "done", "reason": ""} | (DIVERGED if loss is None else {})
        for rate, losses in measured.items()
        for seed, loss in enumerate(losses)
    ]  # fmt: skip
    about = {"metric": LOSS, "arms": {"a": {}}, "tune": {"grid": {RATE: list(measured)}}}
    settings = {
        f"heads=2 learning_rate={rate}": {"model.heads": 2, RATE: rate} for rate in measured
    }
    return Table("x_trials", about, {}, settings, list(rows[0]), rows)


def test_the_least_loss_is_chosen_and_its_trials_are_named():
    [choice] = choices(trials({0.1: [3.0], 0.2: [2.0], 0.4: [2.5]}))
    assert (choice.arm, choice.setting, choice.values) == ("a", {"model.heads": 2}, {RATE: 0.2})
    assert (choice.among, choice.best) == (3, ["r0.2-s0"])
    assert choice.trials == ["r0.2-s0", "r0.4-s0", "r0.1-s0"]


@pytest.mark.parametrize("test", [-1.0, 0.0, 1e9])
def test_nothing_of_the_test_split_is_seen(test):
    measured = {0.1: [3.0, 3.1], 0.2: [2.0, 2.1], 0.4: [2.5, 2.4]}
    assert choices(trials(measured, test=test)) == choices(trials(measured))


def test_a_value_that_diverged_for_any_seed_is_worse_than_all_others():
    found = trials({0.1: [9.0, 9.0], 0.2: [1.0, None]})
    assert settled(found)
    assert [diverged(row) for row in found.rows] == [False, False, False, True]
    [choice] = choices(found)
    assert choice.values == {RATE: 0.1}
    told = r"every trial like .* diverged; give experiment\.tune other"
    with pytest.raises(UserError, match=told):
        choices(trials({0.1: [None], 0.2: [None]}))


def test_a_trial_that_is_not_done_or_never_validated_decides_nothing():
    found = trials({0.1: [3.0], 0.2: [2.0]})
    assert not settled(replace(found, rows=[{**row, "state": "new"} for row in found.rows]))
    with pytest.raises(UserError, match="was trained without validation/loss"):
        choices(replace(found, rows=[{**row, LOSS: None} for row in found.rows]))


def test_of_the_two_best_by_the_first_seed_the_better_mean_is_chosen():
    [choice] = choices(trials({0.1: [2.1, 2.1, 2.1], 0.2: [2.0, 2.4, 2.3], 0.4: [2.2]}))
    assert (choice.values, choice.best) == ({RATE: 0.1}, ["r0.1-s0", "r0.1-s1", "r0.1-s2"])
    assert choice.difference == pytest.approx(0.4 / 3)
    [one_left] = choices(trials({0.1: [2.1, 2.1, 2.1], 0.2: [2.0, None, 2.3], 0.4: [2.2]}))
    assert (one_left.values, one_left.alternative) == ({RATE: 0.1}, None)


def test_a_value_that_trials_cannot_tell_from_the_chosen_one_is_an_alternative():
    [alike] = choices(trials({0.1: [2.1, 2.2, 2.4], 0.2: [2.0, 2.4, 2.1], 0.4: [9.0]}))
    assert (alike.values, alike.alternative) == ({RATE: 0.2}, {RATE: 0.1})
    # Seeds differ by far more than the values do, but alike under both.
    [paired] = choices(trials({0.1: [2.1, 3.1, 5.11], 0.2: [2.0, 3.0, 5.0]}))
    apart = np.array([0.1, 0.1, 0.11])
    half = stats.t.ppf(0.975, 2) * apart.std(ddof=1) / math.sqrt(3)
    assert (paired.values, paired.alternative) == ({RATE: 0.2}, None)
    assert (paired.difference, paired.error) == pytest.approx((apart.mean(), half))
    [one_seed] = choices(trials({0.1: [3.0], 0.2: [2.0]}))  # the trials of version 0.1.0
    assert (one_seed.alternative, one_seed.error) == (None, None)


def test_the_error_of_a_choice_is_pooled_over_settings():
    one = trials({0.1: [2.1, 2.1, 2.2], 0.2: [2.0, 2.0, 2.0]})
    other = trials({0.1: [4.0, 4.0, 4.6], 0.2: [4.0, 4.1, 4.0]})
    rows = [{**row, "arm": "b", "run": f"b-{row['run']}"} for row in other.rows]
    both = choices(replace(one, rows=[*one.rows, *rows]))
    variances = [np.var([0.1, 0.1, 0.2], ddof=1), np.var([0.0, -0.1, 0.6], ddof=1)]
    half = stats.t.ppf(0.975, 4) * math.sqrt(np.mean(variances) / 3)
    assert [choice.error for choice in both] == pytest.approx([half, half])
    assert [bool(choice.alternative) for choice in both] == [True, True]


def test_the_words_say_what_was_chosen_among_how_many_and_what_is_open():
    made = {"values": {RATE: 0.1}, "among": 3, "at_end": [], "alternative": None, "error": 0.0123}
    standard = {"arm": "standard", **made}
    at_end = {**standard, "values": {RATE: 0.4}, "at_end": [RATE], "alternative": {RATE: 0.2}}
    tuning = [standard, at_end, {"arm": "fixed", **made}]
    tune = {"per": "size", "seeds": [7, 8, 9]}
    assert tuned_in_words({"tune": tune, "tuning": tuning}) == [
        "Learning rate chosen on validation among 3 per arm and size, the two best with 3 seeds: "
        "standard 0.1 to 0.4; fixed 0.1.",
        "At an end of what was tried, so perhaps not at its best: standard 0.4.",
        "1 of 3 choices cannot be distinguished from the next best (the error of their difference "
        "is 0.012), so claims are judged with either.",
    ]
    old = {"values": {RATE: 0.1}, "among": 3, "at_end": [], "alike": None, "arm": "a"}
    tune = {"per": "size", "seeds": [7], "steps": 0.7}
    assert tuned_in_words({"tune": tune, "tuning": [old]})[1:] == [
        "Chosen by the rule of version 0.1.0, 1 seed at 70% of the full length: how sure the "
        "choices are is unknown."
    ]
    assert tuned_in_words({"title": "of another experiment"}) == []
