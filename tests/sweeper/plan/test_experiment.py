"""Tests of experiments in yaml: arms with a parent, margins and conditions."""

import pytest
import yaml

from sweeper.plan.experiment import Pretrainings, read_experiment
from sweeper.plan.grid import holds
from tests.refusals import refusal
from tests.sweeper.plan.conftest import each

CHILDREN = """
# @package _global_
defaults:
  - override /task: pretraining
experiment:
  title: child configs
  metric: test/accuracy
  seeds: [3, 5]
  arms:
    first: {set: {task: pretraining, model.heads: 2}, metric: test/mlm_loss}
    second: {parent: first, set: {task: mnli}}
    third:
      parent: second
      set: {model/attention: collaborative, trainer.steps: 0}
      grid: {model.attention.shared_size: [7, 11]}
"""


def test_an_arm_starts_from_the_runs_of_another_seed_by_seed(plan):
    found = plan(text=CHILDREN)
    runs = {
        (p.arm, p.seed, *p.values.values()): found.runs[p.run] for p in found.points
    }
    assert len(found.runs) == len(runs) == 2 + 2 + 4
    for seed in (3, 5):
        first, second = runs["first", seed], runs["second", seed]
        assert first.parent is None
        assert second.parent == first.id
        assert second.config["task"]["tokenizer"].endswith("for pretraining")
        assert second.config["model"] == first.config["model"]
        for size in (7, 11):
            third = runs["third", seed, size]
            shared = {"name": "collaborative", "shared_size": size}
            model = {**second.config["model"], "attention": shared}
            trainer = {**second.config["trainer"], "steps": 0}
            changed = {"model": model, "trainer": trainer, "parent": second.id}
            assert third.config == {**second.config, **changed}


@pytest.mark.parametrize("parent", ["third", "nobody", "second"])
def test_an_arm_starts_from_an_arm_that_stands_before_it(parent):
    text = CHILDREN.replace("parent: first", f"parent: {parent}")
    experiment = yaml.safe_load(text)["experiment"]
    told = refusal(read_experiment, "heirs", experiment, scale="demo")
    assert f"experiment.arms.second.parent={parent}: expected an arm " in told
    assert "first" in told


def test_an_arm_with_a_parent_chooses_no_optimizer_of_its_own(plan):
    text = CHILDREN.replace("trainer.steps: 0", "optimizer: inverse_sqrt")
    told = refusal(plan, text=text)
    assert "arm third cannot choose optimizer. An arm with a parent can" in told
    typed = "optimizer=inverse_sqrt optimizer.weight_decay=0.0,0.1"
    found = plan(typed, text=CHILDREN)  # overrides change all arms
    assert len(found.points) == 2 * (2 + 2 + 4)
    for run in (run for run in found.runs.values() if run.parent):
        decays = (
            one.config["optimizer"]["weight_decay"]
            for one in (run, found.runs[run.parent])
        )
        assert len({*decays}) == 1


def test_a_child_without_a_value_of_its_own_has_the_typed_value_of_its_parent(plan):
    found = plan("model.heads=4", text=CHILDREN)
    assert {*each(found, "model.heads")} == {4}
    assert "(arms that set this key: third)" in refusal(
        plan, "trainer.steps=7", text=CHILDREN
    )


GRIDS = """# @package _global_
defaults: [override /task: lm1b]
experiment:
  title: One arm sweeps the key that the other sets
  metric: test/perplexity
  arms:
    first: {set: {model.embedding_size: 24}, grid: {model.heads: [2, 4]}}
    second: {grid: {model.heads: [2, 4], model.embedding_size: [16, 24]}}
"""


def test_a_typed_value_that_one_arm_has_narrows_the_grid_of_the_other(plan):
    found = plan("model.embedding_size=24", text=GRIDS)
    assert {*each(found, "model.embedding_size")} == {24}
    assert "(arms that set this key: first)" in refusal(
        plan, "model.embedding_size=16", text=GRIDS
    )


def test_the_groups_of_an_arm_are_composed_together(plan):
    """The attention of the first arm fits its own model, but not that of the experiment."""
    text = """
# @package _global_
defaults: [override /task: lm1b, override /model: huggingface]
experiment:
  title: One arm has a model of its own
  metric: test/perplexity
  arms:
    first: {set: {model: decoder, model/attention: latent, model.head_size: 8}}
    second: {grid: {model.heads: [2, 4]}}
"""
    assert plan("trainer.steps=260", text=text).points


@pytest.mark.parametrize(
    ("own", "key"),
    [
        ("task.joined: true", "task.joined=true"),
        ("data.source: local, data.root: other", "data.digest="),
    ],
)
def test_an_arm_with_a_parent_would_have_its_tokenizer(plan, own, key):
    text = f"""
# @package _global_
experiment:
  title: a child whose text is another
  metric: test/perplexity
  arms: {{first: {{set: {{task: lm1b}}}}, second: {{parent: first, set: {{{own}}}}}}}
"""
    assert ", as in the parent " in refusal(plan, text=text).partition(key)[2]


def test_an_arm_with_a_parent_of_another_task_can_use_its_tokenizer(plan):
    text = CHILDREN.replace("task: mnli", "task: lm1b")
    told = refusal(plan, text=text.partition("    third:")[0])
    assert "task=lm1b: expected a task that can use the parent's tokenizer" in told


def test_an_override_of_the_experiment_wins_over_its_scale(plan):
    text = f"{GRIDS}  seeds: [1]\n  scales: {{demo: {{seeds: [2], error: 0.1}}}}\n"
    for typed, expected in {
        "": ([2], 0.1),
        "experiment.scales.demo.seeds=[3] experiment.error=0.2": ([3], 0.2),
        "experiment.scales.demo.seeds=null": ([1], 0.1),
        "experiment.scales.demo={seeds:[4]}": ([4], 0.1),
    }.items():
        [read] = plan(typed, text=text).experiments.values()
        assert (read.seeds, read.error) == expected
    missing = "experiment.scales.demo.claims=null"
    assert "does not set this key at this scale" in refusal(plan, missing, text=text)


def test_references_to_other_keys_are_refused_outside_arms(plan):
    text = f"{GRIDS}  tune: {{grid: {{model.dropout: [0.1, '${{model.dropout}}']}}}}\n"
    assert "no reference to another key" in refusal(plan, text=text)


ARMS = {"fixed": {"label": "fixed"}}
GRID = {"title": "A grid", "metric": "test/perplexity", "arms": ARMS}


@pytest.mark.parametrize("size", ["0.5%", 3])
def test_a_margin_reaches_the_stages_after_the_plan(size):
    margin = {"test/perplexity": {"size": size, "reason": "Less is not seen."}}
    given = {**GRID, "margin": margin, "pretrainings": "one"}
    read = read_experiment("grid", given, scale="demo")
    assert read.described()["margin"] == margin
    assert read.pretrainings is Pretrainings.one


def test_a_typed_null_leaves_an_arm_out_and_empty_braces_the_margin():
    margin = {"test/perplexity": {"size": 1, "reason": "why"}}
    shipped = {**GRID, "margin": margin, "arms": {**ARMS, "other": {}}}
    overrides = {"experiment.arms.fixed": None, "experiment.margin": {}}
    read = read_experiment("grid", shipped, scale="demo", overrides=overrides)
    assert ([*read.arms], read.margin) == (["other"], {})


HEADS = {
    "model": {"heads": 8, "embedding_size": 256, "head_size": None},
    "task": {"name": "lm1b"},
}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (None, True),
        ("model.embedding_size % model.heads == 0", True),
        ("model.embedding_size // model.heads < 32", False),
        ("8 <= model.heads < 9 and task.name == 'lm1b'", True),
        ("model.heads in [4, 16] or not model.heads > 2", False),
        ("model.head_size == None", True),
        ("-model.heads + 2 * 4 == 0", True),
    ],
)
def test_conditions_are_arithmetic_over_config_keys(expression, expected):
    assert holds(expression, HEADS) is expected


@pytest.mark.parametrize(
    "expression",
    [
        "__import__('os').system('true')",
        "open('/etc/passwd')",
        "model.__class__ == 1",
        "model.heads.real == 8",
        "(lambda: 1)()",
        "[x for x in [1]]",
        "model.width == 1",
        "model.heads %",
        "model.heads / 0",
        "2 ** 9999999",
    ],
)
def test_anything_else_is_refused_in_one_sentence(expression):
    assert "a condition compares config keys" in refusal(holds, expression, HEADS)
