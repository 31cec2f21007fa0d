"""Tests of the Slurm backend and its jobs on a simulated cluster."""

import itertools
import os
import signal
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from sweeper.run import slurm as slurm_module
from sweeper.run.backend import BackendContext, Job, Resources
from sweeper.run.slurm import (
    SILENT,
    NotNow,
    SlurmBackend,
    request,
)
from sweeper.run.slurm_job import RunsWork, belongs, job_file
from sweeper.size_server import SizeServer
from sweeper.store.files import make_directory, publish_json
from sweeper.store.runs import RunStore
from tests.policies import launcher
from tests.refusals import refusal
from tests.tasks.jobs import config, freeze


def hand_in(run, name, **about):
    """Write the file that names the job of a run, as its submission does."""
    make_directory(job_file(run).parent)
    publish_json(job_file(run), {"job": "", "name": name, **about})


class Cluster:
    """A simulated cluster that accepts a few jobs, and a backend on it. Tests set the states.

    In `submitted`, each job is described by the names of its runs, which are letters.
    """

    def __init__(self, outputs, monkeypatch, *, room=100, **options):
        self.outputs, self.room = outputs, room
        self.submitted, self.states, self.signals = [], {}, []
        self.answers = True
        self._ids = map(str, itertools.count(1))
        monkeypatch.setattr(slurm_module, "queue", self._queue)
        monkeypatch.setattr(slurm_module, "read_accounts", lambda jobs: {})
        monkeypatch.setattr(
            slurm_module, "send", lambda *sent: self.signals.append(sent)
        )
        monkeypatch.setattr("time.sleep", lambda seconds: None)
        given = replace(launcher("slurm"), poll_s=0.1, **options)
        resources = {Resources.of(config())}
        context = BackendContext(given, resources, "none", outputs, SizeServer())
        self.backend = SlurmBackend(context)
        monkeypatch.setattr(self.backend, "_submit_runs", self._submit)

    def _submit(self, jobs, needed):
        if len(jobs) > self.room - len(self.states):
            raise NotNow("sbatch refused the job: QOSMaxSubmitJobPerUserLimit")
        new = [next(self._ids) for _ in jobs]
        self.submitted += ["".join(run.path.name for run in runs) for runs in jobs]
        self.states |= dict.fromkeys(new, "RUNNING")
        return new

    def _queue(self):
        if not self.answers:
            return None
        return {job: (state, "batch") for job, state in self.states.items()}

    def start(self, name, **keys):
        run = freeze(self.outputs, keys, name)
        slot = self.backend.grant(Job(name, 1.0), [*range(50)])
        return None if slot is None else self.backend.start(run.path, slot)

    def start_all(self, names):
        """Start a run of each name, and return their handles."""
        return [*map(self.start, names)]

    def handed_in(self, name, state, **about):
        """Let another sweep have submitted a run as job 9, which is in this state."""
        hand_in(self.outputs / "runs" / name, "batch", job="9", **about)
        self.states["9"] = state

    def poll(self):
        self.backend._next_poll = 0
        return self.backend.ended(0)


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    return partial(Cluster, tmp_path, monkeypatch)


def test_jobs_that_are_refused_are_submitted_when_there_is_room(cluster):
    slurm = cluster(room=6)
    slurm.start_all("abcdefghi")
    slurm.poll()
    assert slurm.submitted == [*"abcdef"]
    assert "QOSMaxSubmitJobPerUserLimit" in slurm.backend.note
    slurm.states |= dict.fromkeys("123", "FAILED")
    assert len(slurm.poll()) == 3
    slurm.room = 9
    slurm.poll()
    assert slurm.submitted == [*"abcdefghi"]
    assert slurm.backend.note == ""


def test_a_run_that_a_user_cancelled_does_not_start_again(cluster):
    slurm = cluster()
    handle = slurm.start("a")
    slurm.poll()
    slurm.states["1"] = "CANCELLED"
    assert slurm.poll() == [handle]
    assert "was cancelled" in slurm.backend.exit_reason(handle)


@pytest.mark.parametrize("state", ["PREEMPTED", "NODE_FAIL", "BOOT_FAIL"])
def test_a_job_that_the_cluster_took_away_is_submitted_again(cluster, state):
    slurm = cluster()
    slurm.start("a")
    slurm.poll()
    slurm.states["1"] = state
    assert slurm.poll() == []
    slurm.poll()
    assert slurm.submitted == ["a", "a"]


def test_as_many_runs_share_a_job_as_are_asked_for(cluster):
    slurm = cluster(runs_per_job=3)
    slurm.start_all("abcdefg")
    assert slurm.submitted == [], "runs are collected first"
    slurm.poll()
    assert slurm.submitted == ["abc", "def", "g"]
    assert slurm.backend.slots == 500 * 3


def test_only_alike_runs_share_a_job(cluster):
    slurm = cluster(runs_per_job=3)
    slurm.start("p")
    slurm.start("t", **{"trainer.threads": 2})
    slurm.start("o")
    for name in "nm":
        slurm.start(name, **{"trainer.num_nodes": 2})
    slurm.poll()
    assert slurm.submitted == ["po", "t", "n", "m"]


def test_no_more_jobs_wait_than_the_cluster_takes(cluster):
    slurm = cluster(jobs=2)
    slurm.start_all("abc")
    slurm.poll()
    assert slurm.submitted == ["a", "b"]
    slurm.states["1"] = "COMPLETED"
    slurm.poll()
    slurm.poll()
    assert slurm.submitted == ["a", "b", "c"]


def test_a_waiting_run_that_is_asked_to_end_is_not_submitted(cluster):
    slurm = cluster(room=0)
    handle = slurm.start("a")
    slurm.poll()
    slurm.backend.signal(handle, 15)
    slurm.room = 9
    assert slurm.poll() == [handle]
    assert (slurm.submitted, slurm.signals) == ([], [])


def test_a_run_that_an_earlier_sweep_submitted_is_followed(cluster):
    slurm = cluster()
    for name in "ab":
        slurm.handed_in(name, "RUNNING")
    handles = slurm.start_all("ab")
    assert slurm.poll() == []
    slurm.states["9"] = "CANCELLED"
    assert slurm.poll() == handles
    slurm.start("a")
    slurm.poll()
    assert slurm.submitted == ["a"], "its job is over, so it has a new one"


@pytest.mark.parametrize(("state", "submitted"), [("PENDING", []), ("RUNNING", ["a"])])
def test_a_run_that_has_failed_in_a_job_does_not_wait_for_it(cluster, state, submitted):
    slurm = cluster()
    slurm.start("a")
    RunStore(slurm.outputs).run("a").claim({}).finish("nan")
    slurm.handed_in("a", state)
    slurm.poll()
    assert slurm.submitted == submitted


@pytest.mark.parametrize(
    ("about", "submitted"), [({}, []), ({"folder": "/original/runs/a"}, ["a"])]
)
def test_a_run_that_another_sweep_submits_meanwhile_is_followed_but_not_in_a_copy(
    cluster, about, submitted
):
    slurm = cluster()
    slurm.start("a")
    slurm.handed_in("a", "RUNNING", **about)
    slurm.poll()
    assert slurm.submitted == submitted


def test_a_job_of_several_runs_ends_only_what_it_had_begun(cluster):
    slurm = cluster(runs_per_job=4)
    handles = slurm.start_all("abcd")
    slurm.poll()
    (slurm.outputs / "runs" / "a" / "attempts" / "0001").mkdir(parents=True)
    slurm.states["1"] = "OUT_OF_MEMORY"
    assert slurm.poll() == handles[:1]
    assert "used too much host memory" in slurm.backend.exit_reason(handles[0])
    slurm.poll()
    assert slurm.submitted[1:] == ["bcd"]
    # The job failed before it began any run, which counts as a try of all its runs.
    slurm.states["2"] = "FAILED"
    assert slurm.poll() == handles[1:]


def test_a_job_of_several_runs_is_asked_to_stop_once(cluster):
    slurm = cluster(runs_per_job=4)
    for handle in slurm.start_all("ab"):
        slurm.poll()
        slurm.backend.signal(handle, 15)
    assert slurm.signals == [("1", 15)]


def test_nothing_is_started_or_lost_while_slurm_does_not_answer(cluster):
    slurm = cluster()
    slurm.answers = False
    assert slurm.start("a") is None
    assert slurm.backend.note == SILENT
    slurm.answers = True
    handle = slurm.start("a")
    slurm.poll()
    slurm.answers = False
    assert slurm.poll() == []
    assert slurm.backend.note == SILENT
    slurm.answers, slurm.states = True, {"1": "COMPLETED"}
    assert slurm.poll() == [handle]
    assert slurm.backend.note == ""


def test_variables_of_a_surrounding_job_do_not_reach_the_jobs_of_a_sweep(monkeypatch):
    names = "SLURM_CONF SLURM_MEM_PER_CPU SBATCH_PARTITION SRUN_CPUS_PER_TASK"
    for name in names.split():
        monkeypatch.setenv(name, "there")
    slurm_module.leave_allocation()
    own = {name for name in os.environ if name.startswith(("SLURM", "SBATCH", "SRUN"))}
    assert own == {"SLURM_CONF"}


def test_sbatch_is_asked_for_what_a_run_takes(tmp_path, monkeypatch):
    monkeypatch.setattr(slurm_module, "_has_gpus", lambda partition: True)
    options = launcher(
        "slurm", timeout_min=7, mem_gb=1.5, partition="p", signal_delay_s=5
    )
    gpus = request(options, Resources("auto", devices=3, nodes=2, threads=5), tmp_path)
    assert gpus == {
        "time": 7, "partition": "p", "setup": [], "signal_delay_s": 5, "array_parallelism": 256,
        "nodes": 2, "ntasks_per_node": 1, "cpus_per_task": 15, "mem": "1536MB", "gpus_per_node": 3,
        "additional_parameters": {"chdir": str(tmp_path), "requeue": True},
    }  # fmt: skip
    own = {"gres": "gpu:a100:2", "exclude": "n[03,17]"}
    typed = replace(launcher("slurm"), **own, reservation="course")
    gpu, cpu = (
        request(typed, Resources(kind, devices=1, nodes=1, threads=1), tmp_path)
        for kind in ("auto", "cpu")
    )
    assert gpu.items() >= own.items()
    assert gpu["additional_parameters"]["reservation"] == "course"
    assert "gpus_per_node" not in gpu
    assert not cpu.keys() & {"gres", "gpus_per_node"}


@pytest.mark.parametrize(
    ("said", "later"),
    [
        ("QOSMaxSubmitJobPerUserLimit", True),
        ("Unable to contact slurm controller (connect failure)", True),
        ("Invalid qos specification", False),
    ],
)
def test_a_refusal_ends_a_sweep_unless_a_later_submission_may_succeed(
    program, said, later
):
    program("sbatch", f"sbatch: error: {said}", code=1)
    arguments = (launcher("slurm"), Resources.of(config()))
    if later:
        slurm_module.check_room(*arguments)
    else:
        told = refusal(slurm_module.check_room, *arguments)
        assert f"sbatch refused the job: {said}" in told


def test_the_accounts_tell_how_a_job_ended_that_the_queue_forgot(program):
    program("sacct", "7|CANCELLED by 0")
    assert slurm_module.read_accounts(["7"]) == {"7": "CANCELLED"}


def test_the_queue_may_hold_jobs_with_any_name(program):
    program("squeue", "7|RUNNING|own\n8|PENDING|a | b\n")
    assert slurm_module.queue() == {"7": ("RUNNING", "own"), "8": ("PENDING", "a | b")}


@pytest.mark.parametrize("value", ["", "a\nb"])
def test_a_word_cannot_become_two_lines_of_the_script(value):
    told = refusal(launcher, "slurm", partition=f"'{value}'")
    assert told.startswith("hydra.launcher.partition=")


WAITS, DONE_AT_ONCE = -1, -2  # with these codes a run trains until it receives SIGTERM
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
    """A job that records which runs it starts. While the first run trains, it calls `when`."""

    # `checkpoint` makes a copy with these names of the fields of RunsWork.
    def __init__(self, runs, root, name, when=None):
        super().__init__([*map(str, runs)], str(root), name)
        self.started, self._when = [], when

    def _wait(self, process):
        run = Path(process.args[-1])
        if run not in self.started:
            self.started.append(run)
            while not (run / "begun").exists() and process.poll() is None:
                time.sleep(0.01)
            when, self._when = self._when, None
            if when:
                when(self)
        return super()._wait(process)

    def ends(self):
        """Execute the job and return its exit code."""
        try:
            self()
        except SystemExit as end:
            return end.code
        return 0

    def names(self, file=""):
        """Return the names of the started runs whose folder has this file."""
        return "".join(run.name for run in self.started if (run / file).exists())


def signal_all(work):
    """Send SIGTERM to every process of the job, as Slurm does."""
    for process in (os.getpid(), work._process.pid):
        os.kill(process, signal.SIGTERM)


def requeue(work):
    """Stop the job as submitit does before the time limit."""
    work.checkpoint()
    sys.exit(-1)


@pytest.fixture
def work(tmp_path):
    """Return a function that makes a job of runs with given exit codes.

    The job calls `when` once, while a run trains.
    """
    before = {
        number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1)
    }
    (tmp_path / "tasks").mkdir()
    # With this file, Python prefers the package here to the one on PYTHONPATH.
    (tmp_path / "tasks" / "__init__.py").touch()
    (tmp_path / "tasks" / "train.py").write_text(TRAIN)

    def make(codes, when):
        runs = [tmp_path / "outputs" / "runs" / name for name in "abcd"[: len(codes)]]
        for run, code in zip(runs, codes, strict=True):
            run.mkdir(parents=True)
            (run / "code").write_text(str(code))
            hand_in(run, "own")
        return Watched(runs, tmp_path, "own", when)

    yield make
    for number, action in before.items():
        signal.signal(number, action)


def test_a_run_is_trained_by_the_job_that_it_was_handed_in_as_last(tmp_path):
    run = freeze(tmp_path).path
    assert not belongs(run, "first")
    for name in ("first", "second"):
        hand_in(run, name)
        assert belongs(run, name)
    assert not belongs(run, "first")
    (run / "result.json").touch()
    assert not belongs(run, "second")


@pytest.mark.parametrize(
    ("codes", "when", "code", "trained", "saved"),
    [
        ((0, 0, 0), None, 0, "abc", ""),
        ((0, 1, 0), None, 1, "abc", ""),
        ((0, 75, 0), None, 75, "ab", ""),
        ((WAITS, 0), signal_all, 75, "a", "a"),  # by Slurm
        ((WAITS, 0), requeue, -1, "a", "a"),  # before the time limit
        # The run finishes in spite of SIGTERM.
        ((DONE_AT_ONCE, 0), signal_all, 75, "a", "a"),
    ],
)
def test_a_job_trains_its_runs_in_order_until_it_is_asked_to_stop(
    work, codes, when, code, trained, saved
):
    if when is requeue:
        # Skip before the run starts. Otherwise its process would stay.
        pytest.importorskip("submitit")
    one = work(codes, when)
    assert one.ends() == code
    assert (one.names(), one.names("saved")) == (trained, saved)
