"""Arms that start from the runs of another: pre-training, fine-tuning, re-parametrisation."""

from __future__ import annotations

import shutil

import pytest

from sweeper.plan.compose import CONF
from sweeper.store.errors import UserError

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


def _with_experiment(tmp_path, text):
    conf = tmp_path / "conf"
    shutil.copytree(CONF, conf)
    (conf / "experiment" / "heirs.yaml").write_text(text)
    return conf


def test_an_arm_starts_from_the_runs_of_another_seed_by_seed(plan, tmp_path):
    found = plan("experiment=heirs", conf=_with_experiment(tmp_path, CHILDREN))
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


def test_a_run_that_is_evaluated_only_is_the_same_run_wherever_it_is_planned(plan, tmp_path):
    conf = _with_experiment(tmp_path, CHILDREN)
    whole = set(plan("experiment=heirs", conf=conf).runs)
    path = conf / "experiment" / "heirs.yaml"
    path.write_text(CHILDREN.replace("[7, 11]", "[7]"))
    assert set(plan("experiment=heirs", conf=conf).runs) < whole


@pytest.mark.parametrize("parent", ["third", "nobody", "second"])
def test_an_arm_starts_from_an_arm_that_stands_before_it(plan, tmp_path, parent):
    text = CHILDREN.replace("parent: first", f"parent: {parent}")
    words = r"heirs\.arms\.second\.parent=\w+: expected an arm that stands before it; .*first"
    with pytest.raises(UserError, match=words):
        plan("experiment=heirs", conf=_with_experiment(tmp_path, text))
