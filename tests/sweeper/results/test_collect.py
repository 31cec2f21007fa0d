"""Every run of the newest plan has a row, in whatever state it is."""

import shutil

import pytest

from sweeper.results.collect import before_training, collect
from sweeper.results.judge import verdicts_on
from sweeper.results.paper_tables import summarise
from sweeper.results.points import points
from sweeper.results.remarks import (
    baseline_scores,
    left_out,
    missing,
    mixed,
    not_learned,
)
from sweeper.results.table import COLUMNS
from sweeper.store.runs import RunStore
from tests.sweeper.results.synthetic import (
    METRIC,
    MODELS,
    Model,
    Sweep,
    figure1,
    finetuned,
    one_arm,
)

SMALL = Model(64, 2, 16)


def one_point(*measured):
    """Return a sweep of one point with the metric of each seed."""
    return one_arm("model.heads", {2: measured})


def test_a_row_a_point_and_seed_whose_columns_have_a_schema():
    sweep = figure1(seeds=2)
    for point in sweep.points:
        point["values"]["task.sequence_length"] = 257
    table = sweep.table()
    keys = {(row["arm"], row["point"], row["seed"]) for row in table.rows}
    assert len(keys) == len(table.rows)
    assert [row["run"] for row in table.rows] == [one["run"] for one in sweep.points]
    for column in table.columns:
        assert column.startswith(("model.", "test/")) or column in COLUMNS, column


def test_a_finished_run_fills_every_column():
    sweep = one_point(43.7)
    [result] = sweep.results.values()
    result["energy_joules"] = 61.5  # earlier versions wrote this key
    [row] = sweep.table().rows
    wanted = {
        "arm": "fixed",
        "seed": 0,
        "state": "done",
        "model.head_size": 16,  # resolved: the config says null
        "model.attention.name": "multi_head",
        METRIC: 43.7,
        "steps": 97,
        "seconds": 12.5,
        "device": "a CPU, 2 threads",
    }
    assert {key: row[key] for key in wanted} == wanted
    assert "energy_joules" not in row


def test_a_finished_run_without_the_metric_says_which_metric_it_lacks():
    sweep = one_point(43.7, 43.9)
    sweep.metric = "test/accuracy"
    told = "2 of 2 runs missing: 2 done without test/accuracy."
    assert missing(sweep.table()) == told


def test_a_planned_run_whose_folder_is_gone_has_a_row_and_is_missing(tmp_path):
    sweep = one_point(43.7, 43.9)
    shutil.rmtree(RunStore(sweep.write(tmp_path)).run([*sweep.records][1]).path)
    [table] = collect(tmp_path)
    row = table.rows[1]
    assert (row["state"], row["model.heads"], row["width"]) == ("new", 2, 32)
    assert missing(table) == "1 of 2 runs missing: 1 not started."


def test_points_are_told_apart_where_two_keys_end_alike():
    sweep = Sweep()
    values = {"model.attention.name": "latent", "task.name": "lm1b", "model.heads": 3}
    sweep.add("grid", Model(64, 3, 32), [43.0], values)
    table = sweep.table()
    name = "model.attention.name=latent task.name=lm1b heads=3"
    assert table.rows[0]["point"] == name
    assert table.settings == {name: values}


def test_a_key_that_one_arm_fixes_and_another_varies_has_a_cell_in_both():
    sweep = Sweep()
    sweep.add("a", SMALL, [43.0], {})
    sweep.add("b", Model(64, 4, 32), [42.0], {"trainer.steps": 8})
    for record, steps in zip(sweep.records.values(), (4, 8), strict=True):
        record.config["trainer"] = {"steps": steps}
    assert [row["trainer.steps"] for row in sweep.table().rows] == [4, 8]


@pytest.mark.parametrize("planned", [False, True], ids=["frozen", "planned"])
def test_a_cell_has_the_value_of_its_run_instead_of_the_pre_training(planned):
    sweep = one_point(43.7)
    sweep.points[0]["values"] |= {"optimizer.learning_rate": 0.001}
    [(run, record)] = sweep.records.items()
    record.config["optimizer"] = {"learning_rate": 0.003}
    table = sweep.table()
    if planned:
        [table] = before_training(sweep.plan, {run: record.config})
    assert table.rows[0]["optimizer.learning_rate"] == 0.003
    # Figures place the point by the value that the plan varies.
    [point] = points(table, "test/perplexity")
    assert point.at("optimizer.learning_rate") == 0.001


@pytest.mark.parametrize("planned", [True, False])
@pytest.mark.parametrize(
    ("task", "sizes", "own", "saved"),
    [
        ("lm1b", (100, 75), 75, 0.25),
        ("lm1b", (), None, None),
        ("mnli", (100, 75), 100, None),
    ],
)
def test_a_child_is_compared_with_its_parent(
    tmp_path, task, sizes, own, saved, planned
):
    """The parent can be a run of the plan or of an earlier one."""
    earlier = Sweep("earlier")
    earlier.add("trained", SMALL, [43.0])
    sweep = earlier if planned else Sweep()
    [parent] = earlier.records
    sweep.add("child", Model(64, 2, 8), [44.0], task=task, parent=parent)
    records = (earlier.records | sweep.records).values()
    for record, attention in zip(records, sizes, strict=False):
        record.size["params_attention"] = attention
    earlier.write(tmp_path)
    *_, row = sweep.table(tmp_path).rows
    assert row.get("params_attention") == own
    assert row.get("params_attention_saved") == saved


def test_a_cell_is_nothing_a_truth_value_a_number_or_words():
    sweep = one_point(43.7)
    values = {
        "data.pieces": [7, 11],
        "data.shuffled": True,
        "data.name": "",
        "data.root": None,
    }
    sweep.points[0]["values"] |= values
    table = sweep.table()
    [row] = table.rows
    found = {key: row[key] for key in values}
    assert found == values | {"data.pieces": "[7,11]", "data.name": None}
    plain = bool | int | float | str | None
    assert all(isinstance(row.get(column), plain) for column in table.columns)


def test_a_run_that_was_continued_names_all_that_trained_it_and_is_marked(tmp_path):
    sweep = one_point(None)
    run = RunStore(sweep.write(tmp_path)).run(*sweep.records)
    first = {"code": "aaa", "code_parts": {"models": "1"}}
    then = {"code": "bbb", "code_parts": {"models": "2"}}
    old = {"versions": {"torch": "2.7"}, "hardware": {"cpu": "chip"}}
    new = {"versions": {"torch": "2.8"}, "hardware": {"cpu": "chip", "gpu": "card"}}
    for before, facts in enumerate((first | old, first | new, then | new)):
        attempt = run.claim({"continues": before, **facts})
    run.publish_result(attempt, {"metrics": {METRIC: 43.0}, "device": "2 x card"})
    [table] = collect(tmp_path)
    told = [table.rows[0][column] for column in ("code", "torch", "device")]
    assert told == ["aaa then bbb", "2.7 then 2.8", "chip then 2 x card"]
    assert mixed(table) == [
        "Runs of 2 versions of the program: aaa, bbb.",
        "Runs with 2 versions of PyTorch: 2.7, 2.8.",
        "Runs on 2 kinds of device: 2 x card, chip.",
    ]


def test_runs_on_data_that_differ_though_the_text_is_one_are_marked():
    sweep = one_point(43.0, 43.0)
    for result, letters in zip(sweep.results.values(), ("ab", "cd"), strict=True):
        result["data"] = {"sha256": 32 * letters}
    told = "Runs on 2 different preparations of the same data: abababab, cdcdcdcd."
    assert mixed(sweep.table()) == [told]


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        ({"tasks": "1"}, {"tasks": "1"}, False),
        ({"tasks": "1"}, {"tasks": "2"}, True),
        ({"tasks": "1", "tasks/lm1b": "1"}, {"tasks": "1", "tasks/squad": "2"}, False),
        (None, {"tasks": "1"}, False),
    ],
    ids=["commits alike", "differ", "tasks", "unknown"],
)
def test_versions_are_mixed_where_something_that_trains_differs(one, other, differ):
    sweep = one_point(43.0, 43.0)
    for run, code, parts in zip(sweep.records, "ab", (one, other), strict=True):
        if parts:
            sweep.attempts[run] = {"code": code, "code_parts": parts}
    told = ["Runs of 2 versions of the program: a, b."]
    assert mixed(sweep.table()) == told * differ


def test_what_is_unfinished_counts_pre_training_too():
    def done(task, heads, seed):
        return (task, heads) != ("pretraining", 12)

    table = finetuned(done=done).table()
    assert missing(table) == "1 of 15 runs missing: 1 not started."
    found = points(table, "test/loss")  # no fine-tuned task has this metric
    assert [list(point.runs) for point in found] == [[0]] * len(MODELS)


@pytest.mark.parametrize(
    ("at_chance", "others", "closing"),
    [
        (1, {"test/bag_of_words_accuracy": 0.29}, "heads=8 (1 of 1 seed)."),
        (5, {}, "; and 1 more setting."),
        (1, {"point": None}, "(1 of 1 seed)."),
    ],
    ids=["a bag of words is worse", "many", "a point without a name"],
)
def test_settings_at_chance_are_not_learned(at_chance, others, closing):
    table = finetuned("fig2", seeds=1).table()
    of_mnli = [row for row in table.rows if row["task"] == "mnli"]
    for row in of_mnli[:at_chance]:
        row |= {"test/accuracy": 0.3531, **others}
    [told] = not_learned(table)
    assert "at most slightly better than the majority class: " in told
    assert told.endswith(closing)


def compared(*metrics, **about):
    """Return the table of models with 2, 3 and more heads that measured these metrics."""
    heads = range(2, 2 + len(metrics))
    sweep = one_arm("model.heads", {n: [1.0] for n in heads}, **about)
    for result, own in zip(sweep.results.values(), metrics, strict=True):
        result["metrics"] = {f"test/{name}": value for name, value in own.items()}
    return sweep.table()


@pytest.mark.parametrize(
    ("measured", "told"),
    [
        ([(3.0, 0.0), (3.0, 0.0)], "2 of 2 runs did not learn"),
        ([(21.5, 22.0), (110.0, 200.0)], "unigram: fixed heads=2 (1 of 1 seed)."),
    ],
    ids=["a baseline of zero", "each run has data of its own"],
)
def test_each_run_is_compared_with_the_unigram_on_its_own_data(measured, told):
    names = ("perplexity", "unigram_perplexity")
    models = [dict(zip(names, own, strict=True)) for own in measured]
    [found] = not_learned(compared(*models))
    assert told in found


def test_models_without_n_gram_models_are_left_out_of_all_models():
    grams = {"unigram": 90.0, "bigram": 40.0, "trigram": 20.0}
    reached = {f"{name}_perplexity": value for name, value in grams.items()}
    models = {"perplexity": 30.0} | reached, {"perplexity": 15.0}
    [told] = baseline_scores(compared(*models))
    assert told.endswith(". Models without a parent are between bigram and trigram.")


@pytest.mark.parametrize("metric", ["perplexity", "perplexity_per_word", "loss"])
def test_a_language_model_no_better_than_the_unigram_is_not_learned(metric):
    """It is so by perplexity, whatever the metric.

    The table in the terminal and each verdict also say that runs have not learned.
    """
    models = [
        {metric: 5.0, "perplexity": value, "unigram_perplexity": 100.0}
        for value in (20.0, 99.0)
    ]
    about = {"metric": f"test/{metric}", "claims": ["fixed_keeps_improving"]}
    table = compared(*models, **about)
    [told] = not_learned(table)
    assert (
        "1 of 2 runs did not learn and scored at most slightly better than the unigram: "
        in told
    )
    assert told.endswith("heads=3 (1 of 1 seed).")
    assert told in summarise(table)
    [verdict] = verdicts_on(table)
    assert verdict.sentence.endswith(f"{told.partition(':')[0]}.")


def test_finished_runs_whose_seeds_a_later_plan_leaves_out_are_counted(tmp_path):
    every = figure1(seeds=3)
    for record in every.records.values():  # keys that change no result
        record.config["trainer"] = {"log_every": record.config["seed"]}
    assert left_out(every.table(tmp_path)) == ""
    table = figure1(seeds=2, name="fewer").table(tmp_path)
    assert left_out(table) == "Left out: 17 finished runs with other seeds."
    assert all("Left out: " in one.sentence for one in verdicts_on(table))
