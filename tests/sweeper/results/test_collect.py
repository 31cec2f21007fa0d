"""Every point of the newest plan has its row, whatever became of its run."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sweeper.results import collect as module
from sweeper.results.collect import collect, write_tables
from sweeper.results.paper_tables import summarise
from sweeper.results.points import measures, missing, mixed, not_learned, points
from sweeper.results.table import exported
from sweeper.store.errors import UserError
from sweeper.store.plans import write_plan
from sweeper.store.runs import RunStore
from tests.sweeper.results.finetuned import FINETUNE, MODELS, Finetuned, score
from tests.sweeper.results.grids import figure1
from tests.sweeper.results.synthetic import METRIC, Model, Sweep

SMALL = Model(64, 2, 32)


def one_arm(
    values: dict[int, float | None] | None = None, *, name: str = "small"
) -> Sweep:
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
    assert [row["run"] for row in table.rows] == [
        point["run"] for point in sweep.points
    ]
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
    assert (row["steps"], row["seconds"], row["device"]) == (
        97,
        12.5,
        "a CPU, 2 threads",
    )
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
    assert [row["state"] for row in table.rows] == [
        "failed",
        "interrupted",
        "new",
        "done",
    ]
    assert "the loss is nan at step 7" in table.rows[0]["reason"]
    for row in table.rows[:3]:
        assert row["params_total"] == SMALL.size["params_total"]
        assert row.get(METRIC) is None


def test_a_planned_run_without_a_record_has_a_row(tmp_path):
    sweep = one_arm({0: None})
    sweep.records, records = {}, sweep.records
    plan = {
        **sweep.plan,
        "runs": {id: {"size": r["size"]} for id, r in records.items()},
    }
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


def test_a_key_that_one_arm_fixes_and_another_varies_has_a_cell_in_both(tmp_path):
    sweep = Sweep(
        name="steps", x="trainer.steps", labels={"a": "a", "b": "b"}, claims=()
    )
    sweep.add("a", {}, SMALL, {0: 43.0})
    sweep.add("b", {"trainer.steps": 8}, Model(64, 4, 32), {0: 42.0})
    for record, steps in zip(sweep.records.values(), (4, 8), strict=True):
        record["config"]["trainer"] = {"steps": steps}
    assert [row["trainer.steps"] for row in sweep.table(tmp_path).rows] == [4, 8]


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
    values = {
        "data.pieces": [7, 11],
        "data.shuffled": True,
        "data.name": "",
        "data.root": None,
    }
    for point in sweep.points:
        point["values"] |= values
    [result] = sweep.results.values()
    result["device"] = ""
    [row] = sweep.table(tmp_path).rows
    wanted = {"data.pieces": "[7,11]", "data.shuffled": True, "model.heads": 2}
    assert {key: row[key] for key in wanted} == wanted
    assert [row[key] for key in ("data.name", "data.root", "device")] == [None] * 3
    assert all(
        cell is None or isinstance(cell, bool | int | float | str)
        for cell in row.values()
    )


def finished(
    tmp_path: Path, *attempts: dict[str, Any], seed: int = 0, **result: Any
) -> None:
    """Finish the run of a seed by the last of these attempts; each continues the one before."""
    [id] = [row["run"] for row in collect(tmp_path)[0].rows if row["seed"] == seed]
    run = RunStore(tmp_path).run(str(id))
    for facts in attempts:
        attempt = run.claim({"continues": len(run.attempts()), **facts})
    run.publish_result(
        attempt, {"metrics": {METRIC: 43.0}, "device": "2 x card", **result}
    )


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
        (
            ("a", {"tasks": "1", "tasks/lm1b": "1"}),
            ("b", {"tasks": "1", "tasks/squad": "2"}),
            "",
        ),
        ((), ("b", {"tasks": "1"}), ""),
    ],
    ids=["commits alike", "one commit", "tasks", "unknown"],
)
def test_versions_are_mixed_where_something_that_trains_differs(
    tmp_path, one, other, told
):
    one_arm({0: None, 1: None}).write(tmp_path)
    for seed, facts in enumerate((one, other)):
        finished(
            tmp_path, dict(zip(("code", "code_parts"), facts, strict=False)), seed=seed
        )
    expected = [f"Runs of 2 versions of the program: {told}"] if told else []
    assert mixed(collect(tmp_path)[0]) == expected


def test_the_parameters_of_a_row_are_those_of_its_pre_training(tmp_path):
    rows = Finetuned().table(tmp_path).rows
    assert {row["task"] for row in rows} == {"pretraining", "squad", "mnli"}
    for row in rows:
        assert row["params_total"] == MODELS[row["model.heads"]].size["params_total"]


@pytest.mark.parametrize(
    "metric", [m for metrics in FINETUNE.values() for m in metrics]
)
def test_a_point_holds_the_seeds_of_the_task_that_the_metric_is_of(tmp_path, metric):
    table = Finetuned(seeds=3).table(tmp_path)
    assert missing(table) == ""
    for point, model in zip(points(table, metric), MODELS.values(), strict=True):
        times = 100 if metric == "test/accuracy" else 1  # as it is shown: in per cent
        assert point.values == {
            seed: times * score(metric, model, seed) for seed in range(3)
        }


def test_a_fine_tuning_is_named_by_the_swept_steps_of_its_pre_training(tmp_path):
    sweep = one_arm()
    [point], [record] = sweep.points, sweep.records.values()
    point["values"]["trainer.steps"] = 700
    record["config"] |= {"trainer": {"steps": 550}, "parent": "pretraining"}
    [row] = sweep.table(tmp_path / "fine-tuned").rows
    assert (row["state"], row["point"]) == ("done", "heads=2 steps=700")
    record["config"]["parent"] = None
    with pytest.raises(UserError, match=r"trainer\.steps=700, the value of its point"):
        sweep.table(tmp_path / "alone")


def test_head_sizes_that_are_equal_in_all_layers_are_collected(tmp_path):
    sweep = one_arm()
    [point], [record] = sweep.points, sweep.records.values()
    point["values"]["model.head_size"] = [8, [8, 8]]
    record["config"]["model"]["head_size"] = 8  # the same model is the same run
    [row] = sweep.table(tmp_path / "equal").rows
    assert row["point"] == "heads=2 head_size=[8,[8,8]]"
    record["config"]["model"]["head_size"] = [8, 4]
    with pytest.raises(
        UserError, match=r"head_size=\[8,\[8,8\]\], the value of its point"
    ):
        sweep.table(tmp_path / "apart")


def test_what_is_unfinished_counts_pre_training_too(tmp_path):
    sweep = Finetuned(
        done=lambda task, heads, seed: task != "pretraining" or heads != 12
    )
    table = sweep.table(tmp_path)
    assert missing(table) == f"1 of {3 + 3 * 2 * 2} runs is missing: 1 not started."
    found = points(table, "test/loss")  # a metric of no fine-tuning task
    assert [list(point.runs) for point in found] == [[0]] * len(MODELS)


def test_accuracies_are_shown_in_percent_with_their_baselines(tmp_path):
    table = Finetuned().table(tmp_path)
    f1, exact, accuracy = measures(table)
    told = [one.words for one in (f1, exact, accuracy)]
    assert told == ["SQuAD F1", "SQuAD exact match", "MNLI accuracy (%)"]
    assert accuracy.points(table)[0].values == pytest.approx({0: 52.6, 1: 51.8})
    assert f1.points(table)[0].values == pytest.approx({0: 72.6, 1: 71.8})
    baselines = {"majority class": 35.3, "bag of words": 38.1}
    assert accuracy.baselines(table) == pytest.approx(baselines)
    assert f1.baselines(table) == {}


def test_a_constant_guess_is_not_learned_though_a_bag_of_words_is_worse(tmp_path):
    table = Finetuned("fig2", seeds=1).table(tmp_path)
    small = {"test/bag_of_words_accuracy": 0.29, "test/majority_accuracy": 1 / 3}
    rows = [{**row, **small} for row in table.rows if row["task"] == "mnli"]
    guess = {**rows[0], "test/accuracy": 1 / 3}
    [told] = not_learned(replace(table, rows=[guess, *rows[1:]]))
    assert "no better than the majority class" in told


def test_a_point_without_a_name_is_not_learned_by_that_of_its_arm(tmp_path):
    table = Finetuned("fig2", seeds=1).table(tmp_path)
    rows = [row for row in table.rows if row["task"] == "mnli"]
    only = {**rows[0], "point": None, "test/accuracy": 0.3531}
    [told] = not_learned(replace(table, rows=[only]))
    assert told.endswith(
        f"the majority class: {table.label(rows[0]['arm'])} (1 of 1 seed)."
    )


@pytest.mark.parametrize("metric", ["perplexity", "perplexity_per_word", "loss"])
def test_a_language_model_no_better_than_the_unigram_is_not_learned(tmp_path, metric):
    """By each metric: a word has two pieces here, so the unigram's is the square of 100."""
    sweep = Sweep(labels={"fixed": "fixed"}, claims=())
    for heads in (2, 4):
        sweep.add("fixed", {"model.heads": heads}, Model(64, heads, 32), {0: 1.0})
    table, rows = sweep.table(tmp_path), []
    for row, loss in zip(table.rows, (3.0, 4.6), strict=True):
        perplexities = {
            "perplexity": math.exp(loss),
            "perplexity_per_word": math.exp(2 * loss),
        }
        measured = {"loss": loss, "unigram_perplexity": 100.0, **perplexities}
        rows.append(
            {**row, **{f"test/{name}": value for name, value in measured.items()}}
        )
    of_metric = {**table.experiment, "metric": f"test/{metric}"}
    [told] = not_learned(replace(table, rows=rows, experiment=of_metric))
    assert "not learned, no better than the unigram: " in told
    assert told.endswith("heads=4 (1 of 1 seed).")


def test_settings_that_were_not_learned_are_counted_with_their_seeds(tmp_path):
    table = Finetuned("fig2", seeds=1).table(tmp_path)
    rows = [row for row in table.rows if row["task"] == "mnli"]
    chance = [{**row, "test/accuracy": 0.3531} for row in rows[:5]]
    [told] = not_learned(replace(table, rows=[*chance, *rows[5:]]))
    assert "heads=8 (1 of 1 seed); " in told
    assert told.endswith("; and 1 more setting.")
    arms = {
        arm: {**of, "metric": "test/accuracy"}
        for arm, of in table.experiment["arms"].items()
    }
    own = {**table.experiment, "finetune": {}, "metric": "test/loss", "arms": arms}
    [of_arms] = not_learned(replace(table, experiment=own, rows=[*chance, *rows[5:]]))
    assert told == f"MNLI {of_arms}"


def test_the_terminal_shows_every_metric(tmp_path):
    lines = summarise(Finetuned("fig2").table(tmp_path))
    assert lines[0] == "fig2: SQuAD and MNLI, standard against fixed head size"
    for words in ("SQuAD F1", "SQuAD exact match", "MNLI accuracy (%)"):
        assert sum(line.startswith(words + "  ") for line in lines) == 3  # one an arm
