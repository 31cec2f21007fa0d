"""Every option that conf/ offers, what experiments and scales set, and runs of earlier versions."""

import shutil
from pathlib import Path

import pytest
import yaml

from sweeper.decide import check_claims
from sweeper.plan.compose import CONF
from sweeper.plan.planner import Planner
from sweeper.results.collect import collect
from sweeper.store import identity
from sweeper.store.plans import planned
from sweeper.store.registry import ARCHITECTURES, ATTENTION, CLAIMS, FIGURES, TASKS, names
from sweeper.store.runs import RunStore, State
from sweeper.train import freeze
from tasks.parse import parse
from tests.policies import shipped
from tests.sweeper.plan.conftest import FakeProcess


def options(group):
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


# All at demo scale, the default; at the others in the slow tests. One without scales is the same
# at all of them.
EXPERIMENTS = [
    pytest.param(path.stem, scale, marks=() if scale == "demo" else pytest.mark.slow)
    for path in sorted((CONF / "experiment").glob("*.yaml"))
    for scale in yaml.safe_load(path.read_text())["experiment"].get("scales", ["demo", "paper"])
]


@pytest.mark.parametrize(
    "path", sorted(CONF.rglob("*.yaml")), ids=lambda p: str(p.relative_to(CONF))
)
def test_every_file_begins_with_a_comment_that_says_what_it_is_for(path):
    lines = [line for line in path.read_text().splitlines() if line != "# @package _global_"]
    assert lines[0].startswith("# ")
    assert len(lines[0]) > 20


@pytest.mark.parametrize(
    ("group", "kind"),
    [("model/attention", ATTENTION), ("model", ARCHITECTURES), ("task", TASKS)],
    ids=["attention", "architecture", "task"],
)
def test_everything_registered_has_a_yaml_and_the_other_way_round(group, kind):
    presets = {"model": ["today"]}.get(group, [])  # a yaml of an architecture under another name
    assert [name for name in options(group) if name not in presets] == names(kind)


def test_scales_of_tasks_are_scales_and_tasks_that_exist():
    for name in options("scale/task"):
        task, _, scale = name.rpartition("_")
        assert task in options("task")
        assert scale in options("scale")


@pytest.mark.parametrize(("name", "scale"), EXPERIMENTS)
def test_every_experiment_plans_at_every_scale_it_defines(plan, name, scale):
    found = plan(f"experiment={name}", f"scale={scale}")
    [experiment] = found.experiments.values()
    assert {point.arm for point in found.points} == set(experiment.arms)
    assert experiment.figure in names(FIGURES)
    assert set(experiment.claims) <= set(names(CLAIMS))
    check_claims(found)  # its points can decide each of them
    order = [*found.runs]
    for run in found.runs.values():
        assert run.parent is None or order.index(run.parent) < order.index(run.id)


def test_experiments_that_overlap_share_their_runs(plan):
    alone = {name: plan(f"experiment={name}").runs for name in ("fig2", "table2a")}
    together = plan("experiment=fig2,table2a")
    assert set(alone["table2a"]) < set(alone["fig2"]) == set(together.runs)


def test_one_pretraining_serves_every_task_and_every_seed(plan):
    found = plan("experiment=table1", "scale=paper", "seed=0,1,2")
    children = [run for run in found.runs.values() if run.parent]
    parents = {run.parent for run in children}
    assert len(parents) == 3
    assert len(children) == 3 * 2 * 3
    assert parents <= set(found.runs)


def test_where_each_seed_pretrains_no_two_of_them_share_weights(plan):
    found = plan("experiment=table1", "scale=gpu", "seed=0,1,2")
    children = [run for run in found.runs.values() if run.parent]
    points = {str(point.values) for point in found.points}
    assert len({run.parent for run in children}) == 3 * len(points)
    assert len(children) == 2 * 3 * len(points)
    for child in children:
        assert found.runs[child.parent].config["seed"] == child.config["seed"]


LARGER_SCALES = ["demo", "gpu", "paper"]


def sizes(found, arm):
    runs = {point.run for point in found.points if point.arm == arm}
    return {found.runs[run].size["params_total"] for run in runs}


@pytest.mark.parametrize("scale", LARGER_SCALES)
def test_models_of_one_width_have_one_size_whatever_their_heads(plan, scale):
    found = plan("experiment=equal_width", f"scale={scale}", "seed=0")
    assert len(found.runs) >= 7
    assert len(sizes(found, "narrow")) == len(sizes(found, "wide")) == 1
    found = plan("experiment=head_sizes", f"scale={scale}", "seed=0")
    assert len(found.runs) == 4
    assert len({run.size["params_total"] for run in found.runs.values()}) == 1


@pytest.mark.parametrize("scale", LARGER_SCALES)
def test_values_grown_mirror_queries_and_keys_grown(plan, scale):
    found = plan("experiment=value_size", f"scale={scale}", "seed=0")
    assert sizes(found, "values") == sizes(found, "queries_and_keys")
    matched = [point.matched for point in found.points if point.matched]
    assert [match.error for match in matched] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("scale", LARGER_SCALES)
def test_the_rank_of_heads_is_that_of_figure_3s_models(plan, scale):
    found = plan("experiment=fig3,attention_rank", f"scale={scale}", "seed=0")
    runs: dict[str, set[str]] = {}
    for point in found.points:
        runs.setdefault(point.experiment.partition("-")[0], set()).add(point.run)
    assert runs["attention_rank"] <= runs["fig3"]


@pytest.mark.parametrize("scale", LARGER_SCALES)
def test_every_scale_trains_as_its_machine_and_its_length_allow(plan, scale):
    """Of language models, encoders, and what is fine-tuned from them."""
    found = plan("experiment=fig1,fig2", f"scale={scale}", "seed=0")
    configs = [run.config for run in found.runs.values()]
    assert {config["task"]["name"] for config in configs} == {
        "lm1b",
        "pretraining",
        "mnli",
        "squad",
    }
    for trainer in (config["trainer"] for config in configs):
        assert trainer["precision"] == "bf16-mixed" or scale == "demo"
        # A short training is not stopped for validations.
        assert trainer["validate_every"] == 0 or scale == "paper"
    for config in (config for config in configs if config["task"]["name"] == "lm1b"):
        optimizer, steps = config["optimizer"], config["trainer"]["steps"]
        assert 2 / (1 - optimizer["betas"][1]) < steps, "several times what its optimizer remembers"
        assert 2 * optimizer["warmup_steps"] < steps


BEFORE = Path(__file__).with_name("format_1")
"""What commit 11979d105907 left of a grid of two runs: plan, records, results; no weights."""


def test_a_key_that_comes_leaves_every_id_as_it_was(plan, tmp_path, monkeypatch):
    words = ("experiment=fig1,fig2", "seed=0")
    before = plan(*words)
    conf = shutil.copytree(CONF, tmp_path / "conf")
    for place, line in (
        ("optimizer/inverse_sqrt", "look_ahead: 0"),
        ("optimizer/linear", "look_ahead: 0"),
        ("model/attention/multi_head", "sinks: false"),
        ("config", "averaging: {decay: null}"),
    ):
        path = conf / f"{place}.yaml"
        path.write_text(f"{path.read_text()}\n{line}\n")
    renamed = plan(*words, conf=str(conf))
    assert not renamed.runs.keys() & before.runs.keys()
    came = {"optimizer.look_ahead": 0, "model.attention.sinks": False, "averaging.decay": None}
    monkeypatch.setattr(identity, "INTRODUCED_AS", identity.INTRODUCED_AS | came)
    after = plan(*words, conf=str(conf))
    assert after.points == before.points
    assert {"look_ahead", "betas"} <= next(iter(after.runs.values())).config["optimizer"].keys()
    others = plan(*words, "optimizer.look_ahead=3", conf=str(conf))
    assert not others.runs.keys() & before.runs.keys()
    # Records of before, which lack the keys, are those of these runs.
    store = RunStore(tmp_path / "outputs")
    freeze(before, store, {})
    records = {run: store.run(run).record() for run in store.ids()}
    freeze(after, store, {})
    assert {run: store.run(run).record() for run in store.ids()} == records


@pytest.fixture
def outputs(tmp_path):
    return shutil.copytree(BEFORE, tmp_path / "outputs")


def test_results_of_an_earlier_version_are_read_and_extended_and_none_is_trained_again(outputs):
    store = RunStore(outputs)
    old = {run: store.run(run).result() for run in store.ids()}
    assert len(old) == 2
    config = store.run(min(old)).record()["config"]
    assert parse(config).trainer.steps == 20

    class SameText(FakeProcess):
        def _answer(self, question):
            found = super()._answer(question)
            return {**found, "digest": config["data"]["digest"]} if "digest" in found else found

    [typed] = {tuple(plan["command"][1:]) for plan in planned(outputs).values()}
    words = [word.replace("model.heads=2,3", "model.heads=2,3,5") for word in typed if word != "-m"]
    assert words.pop(words.index("paths.outputs=outputs"))
    words += [f"data.{key}={config['data'][key]}" for key in ("competitors", "directions")]
    planner = Planner(shipped(), SameText(), max_runs=99)
    plan = planner.plan([*words, f"paths.outputs={outputs}"])
    freeze(plan, store, {})
    states = {run: store.run(run).status().state for run in plan.runs}
    assert sorted(states.values()) == [State.DONE, State.DONE, State.NEW]
    assert {run for run, state in states.items() if state is State.DONE} == old.keys()
    [table] = collect(outputs)
    measured = {row["run"]: row.get("test/loss") for row in table.rows}
    told = {run: result["metrics"]["test/loss"] for run, result in old.items()}
    assert measured == {run: told.get(run) for run in plan.runs}
    assert {row.get("code") for row in table.rows} == {"11979d105907", None}
