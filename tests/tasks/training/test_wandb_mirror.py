"""The mirror to W&B: nothing that W&B does changes a bit of a run, and what arrives there."""

import os
import signal
import sys
import threading
import time
import types
from pathlib import Path

import pytest

from tasks.training import wandb_mirror
from tasks.training.loop import TrainingModule
from tests.tasks.jobs import at_call, freeze, instead_of_call, run_job, science
from tests.wandb_server import wandb_server

WANDB = {"logger.name": "wandb"}


class Stub(types.ModuleType):
    """Stands in for wandb; one of its calls misbehaves."""

    class errors:
        class Error(Exception):
            pass

    def __init__(self, breaks, how):
        super().__init__("wandb")
        self.breaks, self.how = breaks, how

    def call(self, name):
        if name == self.breaks:
            self.how()
        return self

    def Settings(self, **settings):
        return settings

    def init(self, settings, **arguments):
        return self.call("init")

    def define_metric(self, name, **how):
        return self

    def log(self, row):
        return self.call("log")

    def finish(self, exit_code):
        return self.call("finish")


def raise_(error):
    def action():
        raise error

    return action


def hang():
    time.sleep(10**6)


BROKEN = {
    "raises in init": ("init", raise_(RuntimeError("no core"))),
    "exits in init": ("init", raise_(SystemExit(1))),
    "hangs in init": ("init", hang),
    "loses its core": ("log", raise_(ConnectionResetError("gone"))),
    "hangs in log": ("log", hang),
    "raises in finish": ("finish", raise_(BrokenPipeError("gone"))),
    "hangs in finish": ("finish", hang),
    "is not installed": None,
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_one_costs_one_warning_and_nothing_else(fault, outputs, undisturbed):
    run, breaks = freeze(outputs, WANDB), BROKEN[fault]

    def replace():
        sys.modules["wandb"] = Stub(*breaks) if breaks else None  # None: the import fails
        wandb_mirror.FINISH_SECONDS = 1  # of its patience with what hangs

    assert run_job(run, replace) == 0
    assert science(run) == undisturbed
    log = run.attempts()[0].log_path.read_text()
    assert log.count("warning: W&B is off for this run") == 1


def test_without_it_nothing_of_it_is_imported(outputs):
    run = freeze(outputs)
    assert run_job(run, lambda: sys.modules.update(wandb=None)) == 0  # an import would fail
    assert "W&B" not in run.attempts()[0].log_path.read_text()


ONLINE = {**WANDB, "logger.mode": "online"}


@pytest.fixture
def server():
    pytest.importorskip("wandb")
    with wandb_server() as server:
        yield server


def wait_for_the_mirror():
    """Have the third row, in the middle of the run, wait until the run is at W&B."""
    ready, original = threading.Event(), wandb_mirror.start

    def started(section, run):
        mirrored = original(section, run)
        ready.set()
        return mirrored

    def wait():
        assert ready.wait(120), "W&B never started: the check would be vacuous"

    wandb_mirror.start = started
    at_call(wandb_mirror.Mirror, "log", 3, wait)


def children():
    folder = Path(f"/proc/{os.getpid()}/task")
    return [
        int(pid) for task in folder.iterdir() for pid in (task / "children").read_text().split()
    ]


def kill_core():
    """Kill W&B's own process after the third row."""
    wait_for_the_mirror()

    def kill():
        cores = children()
        assert cores, "no core was started: the check would be vacuous"
        for pid in cores:
            os.kill(pid, signal.SIGKILL)

    at_call(wandb_mirror.Mirror, "log", 4, kill)


def log_of(run):
    return run.attempts()[0].log_path.read_text()


def test_offline(outputs, undisturbed):
    pytest.importorskip("wandb")
    run = freeze(outputs, WANDB)
    assert run_job(run, wait_for_the_mirror) == 0
    assert science(run) == undisturbed
    assert "warning" not in log_of(run)
    assert list(outputs.glob(f"wandb/offline-run-*-{run.id}/run-{run.id}.wandb"))


def test_online_everything_arrives(server, outputs, undisturbed):
    run = freeze(outputs, ONLINE)
    assert run_job(run, wait_for_the_mirror) == 0
    assert science(run) == undisturbed
    assert "warning" not in log_of(run)
    remote = server.runs[run.id]
    assert (remote.state, remote.project) == ("finished", "headroom")
    assert (remote.about["groupName"], remote.about["jobType"]) == ("none", "none")
    assert remote.about["displayName"] == f"none {run.record()['names']['label']}"
    assert remote.about["tags"] == ["none", "lm1b", "decoder"]
    assert remote.config["model"]["value"]["heads"] == 3
    assert remote.config["names"]["value"]["arm"] == "none"
    assert {row["trainer/global_step"] for row in remote.history} == {5, 7, 10, 14, 15, 19}
    losses = [row["train/loss"] for row in remote.history if "train/loss" in row]
    recorded = [row["train/loss"] for row in run.history() if "train/loss" in row]
    assert losses == pytest.approx(recorded, rel=1e-12)
    result = run.result()
    assert remote.summary["test/loss"] == pytest.approx(result["metrics"]["test/loss"], rel=1e-12)


@pytest.mark.slow
def test_a_failed_run_is_no_finished_run_there(server, outputs):
    run = freeze(outputs, ONLINE)

    def sabotage():
        wait_for_the_mirror()
        instead_of_call(TrainingModule, "training_step", 17, ZeroDivisionError())

    assert run_job(run, sabotage) == 1
    assert server.runs[run.id].state == "failed"


@pytest.mark.slow
def test_online_with_its_core_killed(server, outputs, undisturbed):
    run = freeze(outputs, ONLINE)
    assert run_job(run, kill_core) == 0
    assert science(run) == undisturbed
    assert run.id in server.runs, "it was never online: the check would be vacuous"
    assert server.runs[run.id].state == "running"
    assert log_of(run).count("warning: W&B is off") == 1


@pytest.mark.slow
def test_a_server_that_goes_away_in_the_middle(server, outputs, undisturbed):
    run = freeze(outputs, ONLINE)

    def silence():
        wandb_mirror.FINISH_SECONDS = 3
        wait_for_the_mirror()
        at_call(wandb_mirror.Mirror, "log", 4, lambda: (outputs / "silence").touch())

    stopper = threading.Thread(target=_stop_when, args=(outputs / "silence", server))
    stopper.start()
    assert run_job(run, silence) == 0
    stopper.join()
    assert science(run) == undisturbed
    assert server.runs[run.id].state == "running"


def _stop_when(flag, server):
    while not flag.exists():
        time.sleep(0.01)
    server.silent = True


@pytest.mark.slow
@pytest.mark.parametrize("lacking", ["server", "key"])
def test_online_without(lacking, outputs, undisturbed, monkeypatch):
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")  # nobody listens to that port
    monkeypatch.setenv("HOME", str(outputs))  # where a key might be kept
    if lacking == "server":
        monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    monkeypatch.setattr(wandb_mirror, "INIT_SECONDS", 1)
    run = freeze(outputs, ONLINE)
    assert run_job(run) == 0
    assert science(run) == undisturbed
    assert log_of(run).count("warning: W&B is not online for this run") == 1
    assert list(outputs.glob(f"wandb/offline-run-*-{run.id}/run-{run.id}.wandb"))
