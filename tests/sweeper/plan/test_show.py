"""The plan as a person reads it: names are shown as they are, and give a terminal no orders."""

from __future__ import annotations

import io
import re
import shutil

from rich.console import Console

from sweeper.plan.compose import CONF
from sweeper.plan.show import print_plan
from sweeper.store.runs import RunStore

EXPERIMENT = """# @package _global_
experiment:
  title: "clears \\e[2J and [/b]"
  metric: test/loss
  arms:
    "[/red]\\e[2J\\u202e":
      label: hostile
      grid: {model.heads: [1, 2]}
"""


def test_what_an_experiment_is_called_is_neither_markup_nor_an_order(plan, tmp_path):
    conf = tmp_path / "conf"
    shutil.copytree(CONF, conf)
    (conf / "experiment" / "evil.yaml").write_text(EXPERIMENT)
    made = plan("experiment=evil", conf=conf)
    store = RunStore(tmp_path)
    statuses = {run: store.run(run).status() for run in made.runs}
    console = Console(file=io.StringIO(), width=250)
    print_plan(console, made, statuses)
    text = console.file.getvalue()
    assert "[/red]\\x1b[2J\\u202e" in text
    assert "and [/b]" in text
    assert not set("\x1b\u202e") & set(text)


def test_at_80_columns_every_point_keeps_its_size_its_match_and_its_state(plan, tmp_path):
    made = plan("experiment=fig1")
    store = RunStore(tmp_path)
    statuses = {run: store.run(run).status() for run in made.runs}
    console = Console(file=io.StringIO(), width=80)
    print_plan(console, made, statuses)
    text = console.file.getvalue()
    points = {(point.arm, str(point.values)) for point in made.points}
    states = [line for line in text.splitlines() if re.search(r"\b\d+ new\b", line)]
    assert len(states) >= len(points) > 5
    matched = [point.matched for point in made.points if point.matched]
    [head] = [line for line in text.splitlines() if line.startswith("arm ")]
    column = slice(head.index("point"), head.index("params"))
    flat = " ".join(" ".join(line[column] for line in text.splitlines()).split())
    assert all(f"of {one.count} of {one.to}" in flat for one in matched)
    assert "…" not in text
