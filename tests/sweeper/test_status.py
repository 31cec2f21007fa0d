"""Tests of `python -m sweeper status` with runs in every state."""

import io

import pytest
from rich.console import Console

from sweeper.cli.status import lines, print_status
from sweeper.store.liveness import Watcher
from sweeper.store.plans import write_plan
from sweeper.store.runs import RunStore
from tests.sweeper.conftest import finish
from tests.sweeper.store.conftest import elsewhere
from tests.tasks.jobs import freeze

NAMES = "done running failed child grandchild waits new".split()
PARENTS = {"child": "failed", "grandchild": "child", "waits": "running"}
BEAT = {"step": 25, "steps": 100, "loss": 3.25, "tokens_per_second": 50.0}


@pytest.fixture
def outputs(tmp_path):
    runs = {name: freeze(tmp_path, name=name) for name in NAMES}
    finish(runs["done"], {"steps": 100, "seconds": 90.0})
    runs["running"].claim({}).heartbeat(**BEAT)
    failed = runs["failed"].claim({})
    failed.heartbeat(**BEAT)
    failed.finish("nan", "the loss is nan")
    users = [("fig1", name) for name in (*NAMES, "done")] + [("fig3", "running")]
    points = [
        {
            "experiment": user,
            "run": name,
            "arm": "fixed",
            "seed": 3,
            "values": {"model.heads": NAMES.index(name)},
        }
        for user, name in users
    ]
    about = {
        name: {"size": {"tokens": 2000}, "parent": PARENTS.get(name)} for name in NAMES
    }
    plan = {"experiments": {"fig1": {}, "fig3": {}}, "points": points, "runs": about}
    write_plan(tmp_path, plan)
    return tmp_path


def told(outputs):
    found = list(lines(outputs, ["fig1"]))
    # Each run is listed once, even if several points use it.
    assert len(found) == len(NAMES)
    return {line.run: line for line in found}


def printed(found, *, every, width=200):
    console = Console(file=io.StringIO(), width=width)
    print_status(console, found, every=every)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_a_run_is_blocked_by_name_by_a_parent_that_failed_and_waits_for_one_that_runs(
    outputs,
):
    found = told(outputs)
    states = {name: line.state for name, line in found.items()}
    assert states == {
        "done": "done", "running": "running", "failed": "failed", "child": "blocked",
        "grandchild": "blocked", "waits": "new", "new": "new",
    }  # fmt: skip
    assert found["child"].reason.startswith(
        "its parent failed failed: nan: the loss is nan"
    )
    assert found["grandchild"].reason.startswith(
        "its parent child is blocked: its parent failed"
    )
    assert found["waits"].reason == "it waits for its parent running"
    assert found["new"].reason == "no attempt yet"
    left = {
        name: line.left_s for name, line in found.items() if line.left_s is not None
    }
    assert left == {"running": 2000 * 0.75 / 50}, "its tokens at the newest speed"


def test_the_table_tells_progress_and_reasons(outputs):
    text = " ".join(printed([*lines(outputs)], every=False).split())
    assert "running fig1/fixed heads=1 seed=3" in text
    progress = "running running at step 25 of 100 (attempt 1), loss 3.250, 50 tokens/s"
    assert f"{progress}, 30.0 s left" in text
    assert "nan: the loss is nan" in text
    assert "no attempt yet" not in text
    assert "no attempt yet" in printed([*lines(outputs)], every=True)


def test_a_run_of_before_this_machine_started_is_over_once_its_heartbeat_stands_still(
    outputs,
):
    [attempt] = RunStore(outputs).run("running").attempts()
    elsewhere(attempt, boot="earlier")
    now = [0.0]
    store = RunStore(outputs, Watcher(90.0, lambda: now[0]))
    for state, words in (("running", "running at"), ("interrupted", "killed at")):
        [line] = lines(outputs, ["fig3"], store)
        assert line.state == state
        assert words in line.reason
        now[0] += 90.0


def test_a_run_of_two_experiments_is_told_once_and_counted_once(outputs):
    text = printed([*lines(outputs)], every=True, width=80)
    rows = [line.split() for line in text.splitlines()]
    heads = ("experiment", "fig1", "fig3", "all")
    [head, *totals] = [row for row in rows if row and row[0] in heads]
    running = head.index("running")
    counts = [(row[0], row[running], row[-1]) for row in totals]
    assert counts == [("fig1", "1", "7"), ("fig3", "1", "1"), ("all", "1", "7")]
    assert text.count("fig1/fixed") == len(NAMES)
    assert "fig3/fixed" not in text
