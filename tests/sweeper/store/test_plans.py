"""Plans are numbered, written once, and found by the names of their experiments."""

from sweeper.store.plans import newest, plans, write_plan

RACE = """
import os, sys
from pathlib import Path
os.fsync = lambda descriptor: None  # about exclusion, not about power cuts
from sweeper.store.plans import write_plan
GO
for count in range(11):
    write_plan(Path(sys.argv[1]), {"experiments": {}, "by": [sys.argv[2], count]})
"""


def plan(*experiments, **more):
    return {"format": 1, "experiments": {name: {} for name in experiments}, **more}


def test_the_same_plan_again_is_the_same_file_whatever_its_estimate(tmp_path):
    first = write_plan(tmp_path, plan("fig1", scale="demo", estimate={"a": 3.0}))
    before = first.read_bytes()
    again = reversed(plan("fig1", scale="demo", estimate={}, number=97).items())
    assert write_plan(tmp_path, dict(again)) == first
    assert first.read_bytes() == before
    assert len(plans(tmp_path)) == 1
    assert write_plan(tmp_path, plan("fig1", scale="gpu")) != first


def test_a_plan_of_other_experiments_in_between_makes_no_new_one(tmp_path):
    first = write_plan(tmp_path, plan("fig1"))
    both = write_plan(tmp_path, plan("fig3", "fig4"))
    assert write_plan(tmp_path, plan("fig1")) == first
    assert write_plan(tmp_path, plan("fig3")) != both
    # The earlier plan is no longer the newest of fig3.
    assert write_plan(tmp_path, plan("fig3", "fig4")) != both


def test_plans_are_numbered_and_the_latest_of_an_experiment_is_found(tmp_path):
    assert newest(tmp_path) == {}
    assert plans(tmp_path) == list(tmp_path.iterdir()) == []
    first = write_plan(tmp_path, plan("fig1", scale="demo"))
    assert first == tmp_path / "plans/0001.json"
    first.rename(first.with_name("9999.json"))
    for name in ("notes.json", ".0002.json.0123456789abcdef.tmp", "0002.json.bak"):
        first.with_name(name).write_text("{")
    write_plan(tmp_path, plan("fig1", "fig3", scale="gpu"))
    last = write_plan(tmp_path, plan("fig2", scale="paper"))
    assert last == tmp_path / "plans/10001.json"
    assert [value["scale"] for value in plans(tmp_path)] == ["demo", "gpu", "paper"]
    scales = {name: found["scale"] for name, found in newest(tmp_path).items()}
    assert scales == {"fig1": "gpu", "fig3": "gpu", "fig2": "paper"}


def test_plans_written_at_once_never_overwrite_each_other(tmp_path, race):
    race(RACE, 3, tmp_path)
    found = plans(tmp_path)
    assert [value["number"] for value in found] == list(range(1, 34))
    writers = [[str(writer), count] for writer in range(3) for count in range(11)]
    assert sorted(value["by"] for value in found) == writers
