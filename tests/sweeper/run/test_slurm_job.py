"""Tests of what a Slurm job executes, without a Slurm: runs that compute nothing."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from sweeper.run.slurm_job import DriverWork, RunsWork, belongs, job_file
from sweeper.store.code import DRIVER_CODE
from sweeper.store.files import make_directory, publish_json
from tests.tasks.jobs import freeze

WAITS = -1
"""The code of a run that goes on until it is told to stop."""
DONE_AT_ONCE = -2
"""The code of a run that is done as soon as it is told to stop."""
TRAIN = f"""\
import os, pathlib, signal, sys, time

run = pathlib.Path(sys.argv[1])
code = int((run / "code").read_text())


def stop(number, frame):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    (run / "saved").touch()
    sys.exit(0 if code == {DONE_AT_ONCE} else 75)


signal.signal(signal.SIGTERM, stop)
(run / "begun").touch()
if code < 0:
    time.sleep(60)
sys.exit(code)
"""


class Watched(RunsWork):
    """The work of a job that notes which runs it starts; while the first runs, `when` is called."""

    def __init__(self, runs, root, name="own", when=lambda work: None):
        super().__init__([*map(str, runs)], str(root), name)
        self.started, self._when = [], when

    def _wait(self, process):
        run = Path(process.args[-1])
        if run not in self.started:
            self.started.append(run)
            while not (run / "begun").exists():
                time.sleep(0.01)
            when, self._when = self._when, lambda work: None
            when(self)
        return super()._wait(process)

    def ends(self):
        """Do the work; return the exit code."""
        try:
            self()
        except SystemExit as end:
            return end.code
        return 0

    def names(self, file=""):
        """Return the names of the runs that it started, of those that have a file."""
        return "".join(run.name for run in self.started if (run / file).exists())


def signal_all(work):
    """Send SIGTERM to every process of the job, as Slurm does."""
    for process in (os.getpid(), work._process.pid):
        os.kill(process, signal.SIGTERM)


@pytest.fixture
def work(tmp_path):
    """Return a function that makes a job of runs that end with codes; `when` one runs, it is called
    once."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1)}
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "train.py").write_text(TRAIN)
    make_directory(tmp_path / "outputs" / "slurm")

    def make(codes, when=lambda work: None):
        runs = [tmp_path / "outputs" / "runs" / name for name in "abcd"[: len(codes)]]
        for run, code in zip(runs, codes, strict=True):
            run.mkdir(parents=True)
            (run / "code").write_text(str(code))
            publish_json(job_file(run), {"job": "", "name": "own"})
        return Watched(runs, tmp_path, when=when)

    yield make
    for number, action in before.items():
        signal.signal(number, action)


def test_a_run_is_trained_by_the_job_that_it_was_handed_in_as_last(tmp_path):
    run = freeze(tmp_path).path
    assert not belongs(run, "first")
    make_directory(job_file(run).parent)
    for name in ("first", "second"):
        publish_json(job_file(run), {"job": "", "name": name})
        assert belongs(run, name)
    assert not belongs(run, "first")
    (run / "result.json").touch()
    assert not belongs(run, "second")


@pytest.mark.parametrize(
    ("codes", "trained", "code"),
    [((0, 0, 0), "abc", 0), ((0, 1, 0), "abc", 1), ((0, 75, 0), "ab", 75)],
    ids=["all done", "one fails", "asked to stop"],
)
def test_a_job_trains_its_runs_in_order_until_it_is_asked_to_stop(work, codes, trained, code):
    one = work(codes)
    assert one.ends() == code
    assert one.names() == trained


@pytest.mark.parametrize("how", ["by Slurm", "before the time limit"])
def test_the_run_is_asked_to_stop_and_saves(work, how):
    """Slurm signals every process of a job; before the time limit the job signals its run."""

    if how != "by Slurm":
        pytest.importorskip("submitit")  # before the run starts: a skip would leave it behind

    def stop(work):
        if how == "by Slurm":
            signal_all(work)
        else:
            work.checkpoint()
            sys.exit(-1)  # as submitit does, once the job is requeued

    one = work([WAITS] * 2, stop)
    assert one.ends() == (75 if how == "by Slurm" else -1)
    assert one.names("saved") == one.names() == "a"


def test_a_job_that_was_asked_to_stop_begins_no_run_more(work):
    """Even if the one that runs ends as if it had not been."""
    one = work([DONE_AT_ONCE, 0], signal_all)
    assert one.ends() == 75
    assert one.names() == "a"


def test_a_sweep_that_is_a_job_speaks_for_itself_and_not_for_its_job(tmp_path, monkeypatch):
    for name in ("SLURM_CONF", "SLURM_CPUS_PER_TASK", "SUBMITIT_EXECUTOR"):
        monkeypatch.setenv(name, "there")
    script = "import json, os; json.dump(dict(os.environ), open('seen', 'w')); raise SystemExit(3)"
    with pytest.raises(SystemExit, match="3"):
        DriverWork([sys.executable, "-c", script], str(tmp_path), "pinned")()
    seen = json.loads((tmp_path / "seen").read_text())
    assert seen[DRIVER_CODE] == "pinned"
    assert {name for name in seen if name.startswith(("SLURM", "SUBMITIT"))} == {"SLURM_CONF"}
