"""What a plan is thought to take is learned from the finished runs of its folder, whosever."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from sweeper.plan.plan import Plan, PlannedRun
from sweeper.plan.throughput import measured
from sweeper.store import code as state
from sweeper.store.code import Code
from sweeper.store.registry import ROOT
from sweeper.store.runs import RunStore
from sweeper.sweep import expected_seconds
from sweeper.train import Executor


class Folder:
    """An outputs folder with runs of 100 steps, two of which are trained at a time."""

    def __init__(self, outputs) -> None:
        self.outputs, self.store, self.device = outputs, RunStore(outputs), "cpu"

    def run(self, task: str, heads: int, seed: int, **result: Any) -> PlannedRun:
        config = {
            "seed": seed,
            "task": {"name": task},
            "model": {"heads": heads},
            "trainer": {"precision": "32-true", "steps": 100},
        }
        run = PlannedRun(
            f"{task}-h{heads}-s{seed}", config, {"tokens": 700, "flops_per_token": 11}, {}
        )
        stored = self.store.freeze(
            {"id": run.id, "config": config, "size": run.size, "names": run.names}
        )
        if result:
            attempt = stored.claim({})
            stored.publish_result(attempt, {"metrics": {}, **result})
            attempt.finish("done")
        return run

    def executor(self) -> Any:
        backend: Any = SimpleNamespace(device=self.device, slots=2, sharing=1)
        nothing: Any = None
        return Executor(nothing, self.store, nothing, backend, nothing, nothing, nothing)

    def told(self, *runs: PlannedRun, done: Sequence[PlannedRun] = ()) -> float:
        """Return the expected seconds of runs, in a plan that has others which are done."""
        planned = {run.id: run for run in (*runs, *done)}
        plan = Plan("demo", self.outputs, {}, {}, {}, runs=planned)
        return expected_seconds(runs, self.store, measured(plan, self.store, self.device), 2)


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


def test_runs_of_another_plan_say_what_those_of_their_task_take(folder):
    folder.run("lm1b", 3, 0, seconds=11.0, overhead_seconds=2.0)
    folder.run("mnli", 3, 0, seconds=77.0, overhead_seconds=5.0)
    assert folder.told(folder.run("lm1b", 3, 1)) == pytest.approx(13.0)
    assert folder.told(*(folder.run("lm1b", 3, seed) for seed in (1, 2, 3))) == pytest.approx(26.0)


def test_a_plans_own_runs_say_it_where_there_are_any(folder):
    folder.run("lm1b", 3, 0, seconds=11.0, overhead_seconds=2.0)
    own = folder.run("lm1b", 3, 1, seconds=23.0, overhead_seconds=3.0)
    new = folder.run("lm1b", 3, 2)
    assert folder.told(new, done=[own]) == pytest.approx(26.0)


def test_what_was_trained_on_a_gpu_says_nothing_of_a_cpu(folder):
    new = folder.run("lm1b", 3, 1)
    assumed = folder.told(new)
    folder.run("lm1b", 3, 0, seconds=11.0, overhead_seconds=2.0, max_memory_allocated=7)
    assert folder.told(new) == assumed
    folder.device = "gpu"
    assert folder.told(new) == pytest.approx(13.0)


def test_a_damaged_run_of_another_plan_says_nothing_and_stops_nothing(folder):
    new = folder.run("lm1b", 3, 1)
    assumed = folder.told(new)
    damaged = folder.run("lm1b", 3, 0, seconds=11.0, overhead_seconds=2.0)
    (folder.store.run(damaged.id).path / "result.json").write_text("{")
    assert folder.told(new) == assumed


def test_of_an_interrupted_run_only_what_is_left_counts(folder):
    folder.run("lm1b", 3, 0, seconds=20.0, overhead_seconds=2.0)
    new = folder.run("lm1b", 3, 1)
    attempt = folder.store.run(new.id).claim({})
    (attempt.checkpoint_dir / "step-00000075.ckpt").touch()
    attempt.finish("interrupted")
    assert folder.told(new) == pytest.approx(5.0 + 2.0)


def test_that_the_code_was_edited_meanwhile_is_told_once(folder, monkeypatch):
    executor, now = folder.executor(), Code.read()
    executor.console = Console(file=io.StringIO(), width=40)
    executor.backend.code = Path("outputs/code/c0de")
    executor.code = Code(ROOT, {**now.files, "models/block.py": b""})
    monkeypatch.setattr(Code, "read", lambda root: executor.code)
    executor._report_edits()
    monkeypatch.setattr(Code, "read", lambda root: now)
    executor._report_edits()  # it is not looked at again so soon
    assert not executor.console.file.getvalue()
    monkeypatch.setattr(state, "POLL_S", 0.0)
    executor._edits._due = 0.0
    for _ in range(2):
        executor._report_edits()
    told = "models changed since this sweep began, which goes on with outputs/code/c0de\n"
    assert executor.console.file.getvalue() == told
