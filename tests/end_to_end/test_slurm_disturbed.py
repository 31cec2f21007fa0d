"""What clusters do to a sweep, on a real Slurm with accounts: refuse, preempt, drain, be away.

Runs compute nothing: all are done in the end, none of them twice, and nobody typed anything.
"""

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from sweeper.run.backend import BackendContext, Job, Resources
from sweeper.run.backends.slurm import backend
from sweeper.run.schedule import Schedule
from sweeper.run.slurm import SILENT, SlurmBackend
from sweeper.size_server import SizeServer
from sweeper.store.errors import UserError
from sweeper.store.runs import RunStore
from tests.end_to_end.slurm_cluster import NODES, keeps_accounts
from tests.policies import launcher, policy
from tests.tasks.jobs import config, freeze

ROOT = Path(__file__).resolve().parents[2]
# It trains for `trainer.steps` thousandths of a second, as often as it is stopped, and says so.
TRAIN = """\
import os, signal, sys, time
from pathlib import Path

from sweeper.store.runs import Run

run = Run.open(Path(sys.argv[1]))
if run.result():
    sys.exit(0)
attempt = run.claim({})


def said(word):
    with (run.path / "said").open("a") as file:
        print(word, file=file)


def stop(number, frame):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # Slurm says it to a step and to its job
    said("stopped")
    saved.write_text(str(earlier + time.monotonic() - begun))
    attempt.finish("interrupted")
    sys.exit(75)


saved, begun = run.path / "saved", time.monotonic()
earlier = float(saved.read_text()) if saved.exists() else 0
signal.signal(signal.SIGTERM, stop)
(run.path / "processes").write_text(f"{os.getppid()} {os.getpid()}")
said("begun")
time.sleep(max(0, run.record().config["trainer"]["steps"] / 1000 - earlier))
said("ended")
run.publish_result(attempt, {"metrics": {"test/loss": 1.0}, "steps": 1})
attempt.finish("done")
"""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not keeps_accounts(), reason="accounting: slurmdbd, mariadb-server missing"
    ),
]


@pytest.fixture(scope="module", autouse=True)
def _code(slurm, tmp_path_factory):
    """A program like this one, but that its runs compute nothing."""
    root = tmp_path_factory.mktemp("code")
    (root / "sweeper").symlink_to(ROOT / "sweeper")
    (root / "tasks").mkdir()
    (root / "tasks" / "__init__.py").touch()  # before another on PYTHONPATH
    (root / "tasks" / "train.py").write_text(TRAIN)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SlurmBackend, "code", root)
        yield


class Sweep:
    """Runs of so many thousandths of a second each; `notes` are what it was seen to wait for."""

    def __init__(self, outputs, lasting, **options):
        self.runs = [
            freeze(
                outputs,
                {"trainer.steps": steps, "trainer.accelerator": "cpu", "seed": number},
                f"run-{number}",
            )
            for number, steps in enumerate(lasting)
        ]
        given = {"gpus_per_device": 0, "mem_gb": 0.1, "poll_s": 0.5, **options}
        context = BackendContext(
            launcher("slurm", **given),
            {Resources.of(config())},
            "none",
            outputs,
            SizeServer(),
        )
        self.backend = backend(context)
        jobs = [Job(run.id, 1.0) for run in self.runs]
        self.schedule = Schedule(
            RunStore(outputs), self.backend, jobs, policy(), self._look
        )
        self.notes, self.most, self.when = set(), 0, {}
        self._deadline = time.monotonic() + 120  # to fail in words where it would hang

    def _look(self, schedule, state):
        assert time.monotonic() < self._deadline, (queued(), schedule.states)
        self.notes.add(self.backend.note)
        if state is None:
            self.most = max(self.most, len(queued()))
            for condition, act in list(self.when.items()):
                if condition():
                    del self.when[condition]
                    act()

    def told(self):
        return [self.said(number) for number in range(len(self.runs))]

    def said(self, number):
        path = self.runs[number].path / "said"
        return path.read_text().split() if path.exists() else []

    def is_done_and_nothing_twice(self):
        done = self.schedule.execute()
        assert done, {run: state.reason for run, state in self.schedule.states.items()}
        told = self.told()
        for (
            words
        ) in told:  # each start but the last was stopped before there was another
            assert words == ["begun", "stopped"] * (len(words) // 2 - 1) + [
                "begun",
                "ended",
            ]
        return told


def queued():
    told = subprocess.run(
        ["squeue", "--noheader", "--array"], capture_output=True, text=True
    )
    return told.stdout.splitlines()


def arrays(outputs):
    """How many jobs each submission that was taken had."""
    folders = (outputs / "slurm").glob("*/")
    counts = [len(list(folder.glob("*_submitted.pkl"))) for folder in folders]
    return [count for count in counts if count]


def admin(*command):
    subprocess.run([*command], check=True, capture_output=True)


@contextlib.contextmanager
def limit(of, **values):
    """A limit of the accounts while the block runs."""
    for number in ("{}", "-1"):
        words = [f"{key}={number.format(value)}" for key, value in values.items()]
        admin("sacctmgr", "-i", "modify", *of, "set", *words)
        if number == "{}":
            yield


def test_a_cluster_that_takes_few_jobs_is_given_few_and_the_rest_later(slurm, tmp_path):
    with limit(["user", "root"], MaxSubmitJobs=20):
        # A job of somebody else counts as well, and is not known to the sweep.
        admin(
            "sbatch",
            "--hold",
            "--output=/dev/null",
            "--wrap",
            "true",
            "--job-name=other",
        )
        sweep = Sweep(tmp_path, [50] * 22)
        sweep.is_done_and_nothing_twice()
        admin("scancel", "--name=other")
    assert sweep.most == 20
    assert any("AssocMaxSubmitJobLimit" in note for note in sweep.notes)


def test_a_qos_that_refuses_is_waited_for(slurm, tmp_path):
    admin("sacctmgr", "-i", "add", "qos", "few", "MaxSubmitJobsPerUser=2")
    admin("sacctmgr", "-i", "modify", "user", "root", "set", "qos+=few,normal")
    with limit(["qos", "few"], MaxSubmitJobsPerUser=2):
        sweep = Sweep(tmp_path / "a", [50] * 3, qos="few")
        admin("sacctmgr", "-i", "modify", "qos", "few", "set", "MaxSubmitJobsPerUser=1")
        sweep.is_done_and_nothing_twice()
        assert any("QOSMaxSubmitJobPerUserLimit" in note for note in sweep.notes)
    with pytest.raises(UserError, match=r"sbatch refused the job: .*Invalid qos"):
        Sweep(tmp_path / "b", [50], qos="none").schedule.execute()


def test_what_preempts_drains_and_restarts_costs_no_run(slurm, tmp_path):
    """Two jobs are preempted, their node is drained, and then Slurm itself is away for a while."""
    sweep = Sweep(tmp_path, [10_000, 10_000, 10_000, 10_000, 50, 50])

    def preempt():
        urgent = (
            "sbatch",
            "--partition=urgent",
            f"--nodelist={NODES[0]}",
            "--exclusive",
        )
        admin(*urgent, "--output=/dev/null", "--wrap", "sleep 1")
        sweep.when[lambda: sum("stopped" in words for words in sweep.told()) == 2] = (
            drain
        )

    def drain():
        admin(
            "scontrol", "update", f"NodeName={NODES[0]}", "State=DRAIN", "Reason=test"
        )
        admin("scontrol", "shutdown", "slurmctld")
        sweep.when[lambda: sweep.backend.note == SILENT] = restart

    def restart():
        slurm.start("slurmctld", "-D")

    sweep.when = {lambda: sweep.told().count(["begun"]) == 4: preempt}
    told = sweep.is_done_and_nothing_twice()
    assert not sweep.when
    assert sum("stopped" in words for words in told) == 2
    admin("scontrol", "update", f"NodeName={NODES[0]}", "State=RESUME")
    slurm.until_idle()


def test_runs_that_share_a_job_lose_only_the_one_that_ran_when_it_dies(slurm, tmp_path):
    sweep = Sweep(tmp_path, [50, 50, 3000, 50, 50, 50], runs_per_job=6)

    def kill():
        for process in (sweep.runs[2].path / "processes").read_text().split():
            os.kill(int(process), signal.SIGKILL)

    sweep.when = {lambda: sweep.said(2) == ["begun"]: kill}
    assert sweep.schedule.execute()
    assert not sweep.when
    told = sweep.told()
    assert told.pop(2) == ["begun", "begun", "ended"]
    assert told == [["begun", "ended"]] * 5
    assert {*arrays(tmp_path)} == {
        1
    }  # all in one; then what was left, and what had died
