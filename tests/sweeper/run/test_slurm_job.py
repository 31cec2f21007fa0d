"""What a Slurm job executes, without a Slurm: runs that compute nothing, on a GPU of 10 GB."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from sweeper.run.gpus import FRACTION, VARIABLE
from sweeper.run.placing import Share
from sweeper.run.slurm import job
from sweeper.run.slurm.job import LEFT, Sweep, Work, belongs, place
from sweeper.store.files import make_directory, publish_json
from tests.tasks.jobs import freeze

MEBIBYTES = 10_000_000_000 // 2**20
WAITS = -1
"""Of a run: it goes on until it is told to stop."""
DONE_AT_ONCE = -2
"""Of a run: it is done the moment that it is told to stop."""
TRAIN = f"""\
import os, pathlib, signal, sys, time

run = pathlib.Path(sys.argv[1])
code = int((run / "code").read_text())


def stop(number, frame):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    (run / "saved").touch()
    sys.exit(0 if code == {DONE_AT_ONCE} else 75)


signal.signal(signal.SIGTERM, stop)
(run / "told").write_text(f"{{os.environ.get('{VARIABLE}')}} {{os.environ.get('{FRACTION}')}}")
if code < 0:
    time.sleep(60)
sys.exit(code)
"""


class Watched(Work):
    """A job that notes which runs it starts and how many run then."""

    def __init__(self, runs, root, when):
        super().__init__({str(run): share for run, share in runs.items()}, str(root), "own")
        self.started, self.beside, self._when = [], [], when

    def _start(self, command, folder, environment):
        process = super()._start(command, folder, environment)
        self.started.append(Path(command[-1]))
        self.beside.append(len(self._running))
        return process

    def _codes(self):
        if all((run / "told").exists() for run in self.started):
            self._when(self)
            self._when = lambda work: None
        return super()._codes()

    def ends(self):
        """Its exit code."""
        try:
            self()
        except SystemExit as told:
            return told.code
        return 0

    def names(self, file=""):
        """Of the runs that it started, those with a file."""
        return "".join(run.name for run in self.started if (run / file).exists())

    def told(self):
        """What each run that was started sees of GPUs, and which part of one it may take."""
        return [(run / "told").read_text().split() for run in self.started]


def told_by_slurm(work):
    """SIGTERM to every process of the job."""
    for process in (os.getpid(), *work._running):
        os.kill(process, signal.SIGTERM)


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A job of runs that take shares and end with codes; when all of it is under way, it is told
    something."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1)}
    monkeypatch.setattr(job, "STAGGER_S", 0.0)
    monkeypatch.setattr(job, "POLL_S", 0.01)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv(VARIABLE, "GPU-0")
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "train.py").write_text(TRAIN)
    make_directory(tmp_path / "outputs" / "slurm")

    def make(shares, codes, when=lambda work: None, memory=MEBIBYTES):
        answers = "GPU 0: one (UUID: GPU-0a)", f"GPU-0a, {memory}, {memory}, Default"
        script = '#!/bin/sh\ncase "$1" in -L) echo "{}";; *) echo "{}";; esac\n'
        (tmp_path / "nvidia-smi").write_text(script.format(*answers))
        (tmp_path / "nvidia-smi").chmod(0o755)
        runs = [tmp_path / "outputs" / "runs" / name for name in "abcd"[: len(codes)]]
        for run, code in zip(runs, codes, strict=True):
            run.mkdir(parents=True)
            (run / "code").write_text(str(code))
            publish_json(place(run), {"job": "", "name": "own"})
        return Watched(dict(zip(runs, shares, strict=True)), tmp_path, when)

    yield make
    for number, action in before.items():
        signal.signal(number, action)


def test_a_run_is_trained_by_the_job_that_it_was_handed_in_as_last(tmp_path):
    run = freeze(tmp_path).path
    assert not belongs(run, "first")
    make_directory(place(run).parent)
    for name in ("first", "second"):
        publish_json(place(run), {"job": "", "name": name})
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
    one = work([None] * 3, codes)
    assert one.ends() == code
    assert one.names() == trained
    assert set(one.beside) == {1}
    assert one.told() == [["GPU-0", "None"]] * len(trained)  # as Slurm says, and nothing else


@pytest.mark.parametrize(
    ("shares", "beside", "most"),
    [
        ([Share(3.0, 3)] * 4, [1, 2, 3], 3),
        ([Share(3.0, 2)] * 4, [1, 2], 2),
        ([Share(6.0, 3), Share(6.0, 3), Share(2.0, 3)], [1, 1, 2], 2),
        ([Share(1.0, 3), None, Share(1.0, 3), Share(1.0, 2)], [1, 1, 1, 2], 2),
    ],
    ids=["three", "two", "as memory lets", "one unknown"],
)
def test_small_runs_are_side_by_side_on_a_gpu_as_on_this_machine(work, shares, beside, most):
    one = work(shares, [0] * len(shares))
    assert one.ends() == 0
    assert one.names() == "abcd"[: len(shares)]
    assert one.beside[: len(beside)] == beside
    assert max(one.beside) == most
    parts = [None if share is None else share.gigabytes / 10 for share in shares]
    assert [gpu for gpu, _ in one.told()] == ["GPU-0a"] * len(shares)
    told = [None if part == "None" else float(part) for _, part in one.told()]
    assert told == pytest.approx(parts, abs=1e-4)


def test_a_gpu_whose_memory_nothing_tells_is_not_shared(work):
    one = work([Share(1.0, 3)] * 2, (0, 0), memory="[N/A]")
    assert one.ends() == 0
    assert one.beside == [1, 1]
    assert one.told() == [["GPU-0", "None"]] * 2


def test_one_that_fails_leaves_those_beside_it_theirs(work):
    one = work([Share(1.0, 2)] * 4, (1, 0, 0, 0))
    assert one.ends() == 1
    assert one.names() == "abcd"


@pytest.mark.parametrize("how", ["by Slurm", "before the time limit"])
def test_all_that_run_are_asked_to_stop_and_save(work, how):
    """Slurm tells it to every process of a job; before the limit the job tells its runs."""

    def stop(work):
        if how == "by Slurm":
            told_by_slurm(work)
        else:
            work._end(signal.SIGTERM)
            sys.exit(-1)  # as submitit does, once the job is requeued

    one = work([Share(1.0, 3)] * 4, [WAITS] * 4, stop)
    assert one.ends() == (75 if how == "by Slurm" else -1)
    assert one.names("saved") == one.names() == "abc"


def test_a_job_that_was_asked_to_stop_begins_no_run_more(work):
    """Even if the one that runs ends as if it had not been."""
    one = work([None] * 2, [DONE_AT_ONCE, 0], told_by_slurm)
    assert one.ends() == 75
    assert one.names() == "a"


def test_a_sweep_that_is_a_job_speaks_for_itself_and_not_for_its_job(tmp_path, monkeypatch):
    for name in ("SLURM_CONF", "SLURM_CPUS_PER_TASK", "SUBMITIT_EXECUTOR"):
        monkeypatch.setenv(name, "there")
    script = "import json, os; json.dump(dict(os.environ), open('told', 'w')); raise SystemExit(3)"
    with pytest.raises(SystemExit, match="3"):
        Sweep([sys.executable, "-c", script], str(tmp_path), "pinned")()
    told = json.loads((tmp_path / "told").read_text())
    assert told[LEFT] == "pinned"
    assert {name for name in told if name.startswith(("SLURM", "SUBMITIT"))} == {"SLURM_CONF"}
