"""Tests of expected durations, prepared data and the size server."""

import signal
from contextlib import closing
from pathlib import Path
from unittest.mock import Mock

import pytest
from rich.console import Console

from sweeper.plan.plan import Plan
from sweeper.plan.throughput import OVERHEAD_S, measured
from sweeper.run.backend import BackendContext
from sweeper.run.backends.local import LocalBackend
from sweeper.run.options import SweepOptions
from sweeper.size_server import UNKNOWN, SizeServer
from sweeper.stages import overview
from sweeper.stages.overview import Overview, expected_seconds
from sweeper.stages.train import Executor
from sweeper.store.errors import OTHER_CODE
from sweeper.store.records import Record
from sweeper.store.runs import RunStore
from tests.policies import launcher, policy
from tests.refusals import refusal
from tests.sweeper.conftest import finish
from tests.tasks.jobs import config


class Folder:
    """An outputs folder and a backend that trains two runs at a time. Runs have 100 steps."""

    def __init__(self, outputs):
        self.outputs, self.store = outputs, RunStore(outputs)
        self.device, self.slots = "cpu", 2

    def run(self, task, seed, **result):
        changes = {"trainer.steps": 100, "trainer.accelerator": "auto"}
        own = config({"seed": seed, "task.name": task, **changes})
        size = {"tokens": 700, "flops_per_token": 11}
        run = Record(f"{task}-s{seed}", own, size)
        stored = self.store.freeze(run)
        if result:
            finish(stored, result)
        return run

    def plan(self, *runs):
        planned = {run.id: run for run in runs}
        return Plan("demo", self.outputs, {}, {}, {}, runs=planned)

    def told(self, *runs, done=()):
        """Return the expected seconds of `runs`. Their plan also has the finished runs `done`."""
        throughput = measured(self.plan(*runs, *done), self.store, self.device)
        return expected_seconds(runs, self.store, throughput, self.slots)


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


TOOK = {"seconds": 11.0, "overhead_seconds": 2.0}


def test_runs_of_another_plan_say_what_those_of_their_task_take(folder):
    folder.run("lm1b", 0, **TOOK)
    folder.run("mnli", 0, seconds=77.0, overhead_seconds=5.0)
    new = [folder.run("lm1b", seed) for seed in (1, 2, 3)]
    assert folder.told(new[0]) == pytest.approx(13.0)
    assert folder.told(*new) == pytest.approx(26.0)
    own = folder.run("lm1b", 4, seconds=23.0, overhead_seconds=3.0)
    assert folder.told(new[0], done=[own]) == pytest.approx(26.0), (
        "its plan's own say it better"
    )


def test_runs_on_a_cpu_say_nothing_of_a_gpu(folder):
    new = folder.run("lm1b", 1)
    other = folder.run("lm1b", 0, **TOOK, max_memory_allocated=7)

    def told(device, accelerator="auto"):
        folder.device = device
        new.config["trainer"]["accelerator"] = accelerator
        return folder.told(new)

    assert (told("cpu"), told("gpu")) == (OVERHEAD_S, 13.0)
    assert told("cpu", accelerator="gpu") == 13.0, (
        "planned here, to be trained elsewhere"
    )
    (folder.store.run(other.id).path / "result.json").write_text("{")
    assert told("gpu") == OVERHEAD_S, "a damaged run says nothing"


SLOW = Mock(ask=lambda questions: [{"flops_per_second": 7}])
"""A size server on a slow machine."""


@pytest.mark.parametrize(
    ("accelerator", "words"),
    [
        ("auto", "18:21 to 1:13:21 on a CPU as fast as this machine's"),
        ("gpu", "the time on a GPU is unknown until similar runs have been measured"),
    ],
)
def test_a_dry_run_in_a_fresh_folder_names_a_range_for_a_cpu_and_no_time_for_a_gpu(
    folder, monkeypatch, capsys, accelerator, words
):
    monkeypatch.setattr(overview, "size_server", lambda: SLOW)
    run = folder.run("lm1b", 0)
    run.config["trainer"] |= {"accelerator": accelerator, "threads": 1}
    dry_run = SweepOptions(dry_run=True)
    shown = Overview(Console(width=200), folder.store, folder, dry_run, Mock())
    assert shown.print_cost(folder.plan(run), [run.id]) == {}
    assert words in capsys.readouterr().out


def test_of_an_interrupted_run_only_what_is_left_counts(folder):
    folder.run("lm1b", 0, seconds=20.0, overhead_seconds=2.0)
    new = folder.run("lm1b", 1)
    attempt = folder.store.run(new.id).claim({})
    (attempt.checkpoint_dir / "step-00000075.ckpt").touch()
    attempt.finish("interrupted")
    assert folder.told(new) == pytest.approx(5.0 + 2.0)


def fake_process(outcome, says=""):
    """Return a size server whose job logs `says`, and ends with this exit code or this error."""

    def fork(target, argument, *, log, **_):
        assert (target, argument.name) == ("prepare", "a")
        log.write_text(says)
        return 1

    exit_code = Mock(side_effect=[outcome])
    return Mock(spec=SizeServer, fork=Mock(side_effect=fork), exit_code=exit_code)


def prepared(outputs, process, **options):
    executor = Executor(
        Console(), RunStore(outputs), process, Mock(), policy(**options), None, None
    )
    executor.prepare_data("a", Mock())


def test_the_last_line_of_its_log_says_why_it_failed(tmp_path):
    process = fake_process(1, "first\nno text in \x1b[31mred\n\n")
    told = refusal(prepared, tmp_path, process)
    assert r"prepared: no text in \x1b[31mred (log: " in told
    process.fork.assert_called_once()


def test_runs_of_other_code_do_not_train_again_on_data_that_it_prepared(
    tmp_path, capsys
):
    words = f"{OTHER_CODE}data/text-0 (tasks/data.py changed)\n"
    told = refusal(prepared, tmp_path, fake_process(0, words), retrain="changed")
    assert "text-0 (tasks/data.py changed); delete this folder" in told
    prepared(tmp_path, fake_process(0, words))
    assert "note: other code prepared" in capsys.readouterr().out


def test_each_of_two_sweeps_at_once_prints_the_notes_of_its_own_log(tmp_path, capsys):
    note = "note: MNLI, train: only 5 of 6 rows are kept.\n"
    first, second = fake_process(0, f"Map: 100 %\n{note}"), fake_process(0)
    first.exit_code.side_effect = lambda job: prepared(tmp_path, second) or 0
    prepared(tmp_path, first)
    assert capsys.readouterr().out == note
    assert [*(tmp_path / "data").iterdir()] == []


def test_it_ends_with_the_sweep_that_waits_for_it(tmp_path):
    process = fake_process(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        prepared(tmp_path, process)
    process.signal.assert_called_once_with(1, signal.SIGKILL)


def test_a_server_answers_even_if_it_was_stopped_and_ends_by_itself():
    process = SizeServer()
    server = process.start()
    process.tell({"op": "no such question"})
    for stop in (lambda: None, lambda: server.send_signal(signal.SIGSTOP)):
        stop()
        [answer] = process.ask([{"op": "nor this"}])
        assert answer["error"].startswith("op=nor this: expected size")
    assert process._process is server
    process.close()
    assert server.wait(timeout=60) == 0


# A size server that imports nothing and starts no jobs.
SERVER = """
import json, sys

for line in sys.stdin:
    asked = json.loads(line)
    if asked["op"] == "end":
        sys.exit()
    said = [{"pid": 7}, {"exited": 3}] if asked.get("argument") == "ends" else [{"pid": 7}]
    print(*(json.dumps({"id": asked["id"], **one}) for one in said), sep="\\n", flush=True)
"""


def test_a_job_that_ended_before_its_server_is_not_lost_with_it(tmp_path):
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "__init__.py").touch()
    (tmp_path / "tasks" / "size_server.py").write_text(SERVER)
    with closing(SizeServer()) as light:
        light.code = tmp_path
        ends, lives = (
            light.fork("train", Path(name), environment={}, log=tmp_path)
            for name in ("ends", "lives")
        )
        told = refusal(light.ask, [{"op": "end"}])
        assert "the process that builds the models (tasks.size_server) ended" in told
        exits = [light.exits.get(timeout=60) for _ in range(2)]
    assert exits == [(ends, 3), (lives, UNKNOWN)]


def test_jobs_are_imported_for_once_and_before_the_first():
    process = Mock(fork=Mock(return_value=1))
    context = BackendContext(
        launcher("local"), frozenset(), "none", Path("outputs"), process
    )
    backend = LocalBackend(context, ["", ""])
    for slot, name in enumerate(("a", "b")):
        backend.start(Path(name), slot)
    assert [call[0] for call in process.mock_calls] == ["tell", "fork", "fork"]
    process.tell.assert_called_with({"op": "preload", "logger": "none"})
