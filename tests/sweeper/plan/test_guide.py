"""Tests that the tables of docs/experiments.md match the code, and that its examples work."""

import inspect
import json
import re
import shlex
from dataclasses import MISSING, fields
from importlib import import_module

import pytest

from sweeper.plan.experiment import Arm, Experiment, Margin, Match, Tune
from sweeper.results.judge import verdicts_on
from sweeper.stages.decide import check_claims
from sweeper.store import registry
from tasks.parse import parse
from tests.sweeper.results.synthetic import one_arm

GUIDE = (registry.ROOT / "docs" / "experiments.md").read_text("utf-8")
YAML = [
    text
    for text in re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)
    if "arms:" in text
]
PYTHON = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)


def table(head):
    """Return the rows of the table whose first column has the title `head`, as lists of cells."""
    _, _, after = GUIDE.partition(f"| {head} |")
    lines = after.partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def default(field):
    made = (
        field.default_factory()
        if field.default_factory is not MISSING
        else field.default
    )
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
        # Some defaults are phrases, such as "the experiment's".
        if name in known and not said.startswith("the "):
            assert said.strip("`") == default(known[name]), name


def test_every_claim_is_documented_with_its_arms_and_its_question():
    rows = []
    for name in registry.names(registry.CLAIMS):
        claim = registry.function(registry.CLAIMS, name, "key", "claim")
        arms = list(inspect.signature(claim).parameters.values())[1:]
        words = ", ".join(f"`{arm.default}`" for arm in arms) or "all"
        rows.append([f"`{name}`", words, inspect.getdoc(claim).splitlines()[0]])
    assert table("claim") == rows


def test_every_figure_is_documented():
    rows = []
    for name in registry.names(registry.FIGURES):
        module = import_module(f"sweeper.results.figures.{name}")
        rows.append([f"`{name}`", inspect.getdoc(module).splitlines()[0]])
    assert table("figure") == rows


@pytest.mark.parametrize(
    "typed", re.findall(r"sweep.py -m (\S+=fig1 [^#\n]+?) +#", GUIDE)
)
def test_the_commands_are_planned(typed, plan):
    planned = plan(
        *(word for word in shlex.split(typed) if not word.startswith(("data", "hydra")))
    )
    check_claims(planned)
    assert [parse(run.config) for run in planned.runs.values()]


@pytest.mark.parametrize(
    "text", YAML, ids=[re.search("title: (.*)", text)[1] for text in YAML]
)
def test_the_examples_are_planned(text, plan, tmp_path):
    (tmp_path / "a.txt").write_text("a text of words\n" * 99)
    root = f"data.root={tmp_path}" if "/data: local" in text else ""
    planned = plan(root, text=text)
    check_claims(planned)
    assert len(planned.runs) > 2
    targets = {point.matched.count for point in planned.points if point.matched}
    assert targets == set(
        re.findall(r"count: (\w+)", text) or ["params_total"] * ("match" in text)
    )


def test_the_claim_and_the_figure_of_the_guide_work(tmp_path, monkeypatch):
    claim, figure = ({}, {})
    for text, names in zip(PYTHON, (claim, figure), strict=True):
        exec(compile(text, "docs/experiments.md", "exec"), names)
    monkeypatch.setattr(registry, "function", lambda *_: claim["claim"])
    seeds = {heads: [30.0 - heads + n for n in range(9)] for heads in (2, 4, 8)}
    made = one_arm("model.heads", seeds, claims=["more"]).table(tmp_path)
    [verdict] = verdicts_on(made)
    assert verdict.verdict == "supported"
    [axes] = figure["draw"](made).axes
    [line] = axes.lines
    assert len(line.get_xdata()) == 27
