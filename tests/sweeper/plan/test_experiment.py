"""Experiment files, and docs/experiments.md, whose tables and examples are those of the code."""

import inspect
import json
import re
from dataclasses import MISSING, fields
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from sweeper.decide import check_claims
from sweeper.plan.experiment import (
    Arm,
    Experiment,
    Margin,
    Match,
    Pretrainings,
    Tune,
    read_experiment,
)
from sweeper.plan.grid import holds
from sweeper.store import registry
from sweeper.store.errors import UserError
from tests.sweeper.results.synthetic import Model, Sweep

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


def test_an_arm_starts_from_the_runs_of_another_seed_by_seed(plan, with_experiment):
    found = plan("experiment=heirs", conf=with_experiment("heirs", CHILDREN))
    runs = {(p.arm, p.seed, *p.values.values()): found.runs[p.run] for p in found.points}
    assert len(found.runs) == len(runs) == 2 + 2 + 4
    for seed in (3, 5):
        first, second = runs["first", seed], runs["second", seed]
        assert first.parent is None
        assert second.parent == first.id
        assert second.config["task"]["name"] == "mnli"
        assert second.config["task"]["tokenizer"].endswith("for pretraining")
        assert second.config["model"] == first.config["model"]
        for size in (7, 11):
            third = runs["third", seed, size]
            assert third.parent == second.id
            shared = {"name": "collaborative", "shared_size": size}
            model = {**second.config["model"], "attention": shared}
            trainer = {**second.config["trainer"], "steps": 0}
            changed = {"model": model, "trainer": trainer, "parent": second.id}
            assert third.config == {**second.config, **changed}
    fewer = with_experiment("heirs", CHILDREN.replace("[7, 11]", "[7]"))
    assert plan("experiment=heirs", conf=fewer).runs.keys() < found.runs.keys()


@pytest.mark.parametrize("parent", ["third", "nobody", "second"])
def test_an_arm_starts_from_an_arm_that_stands_before_it(plan, with_experiment, parent):
    text = CHILDREN.replace("parent: first", f"parent: {parent}")
    words = r"heirs\.arms\.second\.parent=\w+: expected an arm that stands before it; .*first"
    with pytest.raises(UserError, match=words):
        plan("experiment=heirs", conf=with_experiment("heirs", text))


ARMS = {"fixed": {"label": "fixed"}}
GRID: dict[str, Any] = {"title": "A grid", "metric": "test/perplexity", "arms": ARMS}


@pytest.mark.parametrize("size", ["1 %", "0.5%", 3, 0.25])
@pytest.mark.parametrize("pretrainings", Pretrainings)
def test_a_margin_reaches_the_stages_after_the_plan(size, pretrainings):
    given = with_margin(size, reason="Less is not seen.")
    if pretrainings is not Pretrainings.each:
        given["pretrainings"] = pretrainings.value
    read = read_experiment("grid", {**GRID, **given}, scale="demo")
    assert read.described()["margin"] == given["margin"]
    assert read.pretrainings is pretrainings


def with_margin(size, **reason):
    return {"margin": {"test/perplexity": {"size": size, **reason}}}


@pytest.mark.parametrize(
    ("key", "told"),
    [
        (with_margin(0, reason="why"), "size=0"),
        (with_margin("a little", reason="why"), "size=a little"),
        (with_margin("inf", reason="why"), "size=inf"),
        (with_margin(1, reason=" "), "reason"),
        (with_margin(1), "reason"),
        ({"pretrainings": "some"}, "pretrainings"),
    ],
)
def test_what_is_no_margin_and_no_choice_is_refused_in_a_sentence(key, told):
    with pytest.raises(UserError, match=told):
        read_experiment("grid", {**GRID, **key}, scale="demo")


HEADS = {"model": {"heads": 8, "embedding_size": 256, "head_size": None}, "task": {"name": "lm1b"}}


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
    with pytest.raises(UserError, match="expected a condition over config keys") as refusal:
        holds(expression, HEADS)
    assert "\n" not in str(refusal.value)


GUIDE = (Path(__file__).resolve().parents[3] / "docs" / "experiments.md").read_text("utf-8")
YAML = [text for text in re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL) if "arms:" in text]
PYTHON = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)


def table(head):
    """The rows of the table whose first cell this is, as lists of cells."""
    _, _, after = GUIDE.partition(f"| {head} |")
    lines = after.partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def default(field):
    made = field.default_factory() if field.default_factory is not MISSING else field.default
    return "needed" if made is MISSING else json.dumps(made).strip('"')


@pytest.mark.parametrize(
    ("kind", "head", "further"),
    [
        (Experiment, "key of `experiment`", ["scales"]),
        (Arm, "key of an arm", []),
        (Match, "key of `match`", []),
        (Margin, "key of `margin.<metric>`", []),
        (Tune, "key of `tune`", []),
    ],
)
def test_every_key_of_an_experiment_is_documented_with_its_default(kind, head, further):
    rows = {cells[0].strip("`"): cells[1] for cells in table(head)}
    known = {one.name: one for one in fields(kind) if one.name not in ("name", "yaml")}
    assert rows.keys() == {*known, *further}
    for name, said in rows.items():
        if name in known and not said.startswith("the "):  # as for the whole experiment
            assert said.strip("`") == default(known[name]), name


def test_every_claim_is_documented_with_its_arms_and_its_question():
    rows = []
    for name in registry.names(registry.CLAIMS):
        module = import_module(f"sweeper.results.claims.{name}")
        arms = list(inspect.signature(module.claim).parameters.values())[1:]
        words = ", ".join(f"`{arm.default}`" for arm in arms) or "all"
        rows.append([f"`{name}`", words, inspect.getdoc(module).splitlines()[0]])
    assert table("claim") == rows


def test_every_figure_is_documented():
    modules = {
        name: import_module(f"sweeper.results.figures.{name}")
        for name in registry.names(registry.FIGURES)
    }
    rows = [[f"`{name}`", inspect.getdoc(one).splitlines()[0]] for name, one in modules.items()]
    assert table("figure") == rows


@pytest.mark.parametrize("text", YAML, ids=[re.search("title: (.*)", text)[1] for text in YAML])
def test_the_examples_are_planned(text, plan, with_experiment, tmp_path):
    (tmp_path / "a.txt").write_text("a text of words\n" * 99)
    root = [f"data.root={tmp_path}"] if "/data: local" in text else []
    planned = plan("experiment=mine", *root, conf=with_experiment("mine", text))
    check_claims(planned)
    assert len(planned.runs) > 2
    targets = {point.matched.count for point in planned.points if point.matched}
    assert targets == set(re.findall(r"count: (\w+)", text) or ["params_total"] * ("match" in text))


def test_the_claim_and_the_figure_of_the_guide_work(tmp_path, monkeypatch):
    claim, figure = ({}, {})
    for text, names in zip(PYTHON, (claim, figure), strict=True):
        exec(compile(text, "docs/experiments.md", "exec"), names)
    monkeypatch.setattr(registry, "function", lambda *_: claim["claim"])
    sweep = Sweep(claims=["more"], labels={"fixed": "head size fixed"})
    for heads in (2, 4, 8):
        values, measured = {"model.heads": heads}, {seed: 30.0 - heads + seed for seed in range(9)}
        sweep.add("fixed", values, Model(64, heads, 32), measured)
    made = sweep.table(tmp_path)
    from sweeper.results.judge import verdicts_on

    [verdict] = verdicts_on(made)
    assert verdict.verdict == "supported"
    [axes] = figure["draw"](made).axes
    [line] = axes.lines
    assert len(line.get_xdata()) == 27
