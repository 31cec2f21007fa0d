"""Every option that conf/ offers, discovered and held to the contract of its group."""

from __future__ import annotations

import re

import pytest

from sweeper.decide import check_claims
from sweeper.plan.compose import CONF
from sweeper.store.registry import ARCHITECTURES, ATTENTION, CLAIMS, FIGURES, TASKS, names

GROUPS = ("model", "model/attention", "task", "data", "optimizer", "trainer", "logger", "scale")


def options(group):
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


# All at demo scale, the default; at the others in the slow tests.
EXPERIMENTS = [
    pytest.param(path.stem, scale, marks=() if scale == "demo" else pytest.mark.slow)
    for path in sorted((CONF / "experiment").glob("*.yaml"))
    # One without scales is the same at all of them.
    for scale in re.findall(
        r"^    (\w+):$", path.read_text().partition("  scales:")[2], re.MULTILINE
    )
    or ["demo", "paper"]
]


@pytest.mark.parametrize(("group", "option"), [(g, o) for g in GROUPS for o in options(g)])
def test_every_option_composes_and_sets_its_own_section(shipped, group, option):
    config = shipped.base([f"{group}={option}"]).run({})
    section = group.split("/")[0]
    if section != "scale":
        assert config[section]


@pytest.mark.parametrize(
    "path", sorted(CONF.rglob("*.yaml")), ids=lambda p: str(p.relative_to(CONF))
)
def test_every_file_begins_with_a_comment_that_says_what_it_is_for(path):
    lines = [line for line in path.read_text().splitlines() if line != "# @package _global_"]
    assert lines[0].startswith("# ")
    assert len(lines[0]) > 20


def test_every_attention_variant_has_a_yaml_and_the_other_way_round():
    assert options("model/attention") == names(ATTENTION)


def test_every_architecture_has_a_yaml_and_the_other_way_round():
    assert options("model") == names(ARCHITECTURES)


def test_every_task_has_a_yaml_and_the_other_way_round():
    assert options("task") == names(TASKS)


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
    for run in found.runs.values():
        assert run.parent is None or list(found.runs).index(run.parent) < list(found.runs).index(
            run.id
        )


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
    parents = {run.parent for run in children}
    points = {str(point.values) for point in found.points}
    assert len(parents) == 3 * len(points)
    assert len(children) == 2 * len(parents)
    for child in children:
        assert found.runs[child.parent].config["seed"] == child.config["seed"]
