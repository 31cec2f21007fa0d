"""Tests with the real W&B, when it works, is killed, cannot be reached, or lacks a key."""

import os
import signal
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from sweeper.store import mirrors
from tasks.module import TaskModule
from tasks.training import wandb_mirror
from tasks.training.job import INTERRUPTED
from tests.end_to_end.test_sweep import python
from tests.tasks.jobs import (
    at_call,
    ended,
    log_of,
    run_job,
    science,
    terminate_self,
    write_points,
)
from tests.wandb_server import wandb_server

pytest.importorskip("wandb")

OFFLINE = {"logger.name": "wandb"}
ONLINE = {**OFFLINE, "logger.mode": "online"}


@pytest.fixture
def server():
    with wandb_server() as server:
        yield server


def wait_for_the_mirror():
    """Make the job wait at its third row of metrics until W&B has started the run."""
    ready, original = threading.Event(), wandb_mirror.start

    def started(section, run):
        mirrored = original(section, run)
        ready.set()
        return mirrored

    def wait():
        assert ready.wait(120), "W&B never started: the check would be vacuous"

    wandb_mirror.start = started
    at_call(wandb_mirror.Mirror, "log", 3, wait)


def kill_core():
    """Kill W&B's own process after the third row."""
    wait_for_the_mirror()

    def kill():
        lists = Path("/proc/self/task").glob("*/children")
        cores = " ".join(path.read_text() for path in lists).split()
        assert cores, "no core was started: the check would be vacuous"
        for pid in map(int, cores):
            os.kill(pid, signal.SIGKILL)

    at_call(wandb_mirror.Mirror, "log", 4, kill)


def folder_of(run):
    """Return the only folder of a run that W&B has written offline."""
    [folder] = mirrors.folders(run.outputs, run.id, offline=True)
    return folder


def sync(server, outputs):
    """Upload an outputs folder by `wandb sync`. Return the only run that the server has then."""
    python("-m", "wandb", "sync", "--yes", outputs / "wandb")
    [remote] = server.runs.values()
    return remote


def losses(rows, step="step"):
    """Return the training loss of each step that has one."""
    return {row[step]: row["train/loss"] for row in rows if "train/loss" in row}


def assert_mirrored(remote, run):
    """Assert that W&B has the losses of a run, and no others."""
    found, expected = losses(remote.history, wandb_mirror.STEP), losses(run.history())
    assert found == pytest.approx(expected, rel=1e-12)


def test_attempts_are_synced_as_one_even_if_they_start_in_one_second(server, outputs):
    """W&B appends a number to the name of the second folder, which has only the second attempt."""

    def start_in_2025():
        from wandb.sdk import wandb_init

        frozen = {"time": lambda: 1764400000.0}
        wandb_init.time = SimpleNamespace(**vars(time) | frozen)
        wait_for_the_mirror()

    def stop():
        start_in_2025()
        at_call(TaskModule, "training_step", 13, terminate_self)

    run = ended(outputs, OFFLINE, sabotage=stop, code=INTERRUPTED)
    assert run_job(run, start_in_2025) == 0
    assert folder_of(run).name.startswith("offline-run-2025")
    assert_mirrored(sync(server, outputs), run)
    assert [*losses(run.history())] == [5, 10, 15, 19]


def test_a_run_that_starts_anew_keeps_no_record_of_the_attempt_before(server, outputs):
    run = ended(outputs, OFFLINE, sabotage=wait_for_the_mirror)
    first = folder_of(run)
    run.begin_anew()
    assert run_job(run, wait_for_the_mirror) == 0
    assert first != folder_of(run)
    assert_mirrored(sync(server, outputs), run)


def test_online_everything_arrives(server, outputs, undisturbed):
    point = {"arm": "none", "run": "small", "seed": 3, "values": {}, "matched": None}
    write_points(outputs, *({**point, "experiment": one} for one in ("fig1", "fig3")))
    run = ended(outputs, ONLINE, sabotage=wait_for_the_mirror)
    assert science(run) == undisturbed
    assert "warning" not in log_of(run)
    remote = server.runs[run.id]
    assert (remote.state, remote.project) == ("finished", "headroom")
    assert (remote.about["groupName"], remote.about["jobType"]) == ("none", "none")
    assert remote.about["displayName"] == f"none {run.record().names['label']}"
    assert remote.about["tags"] == ["none", "fig1", "fig3", "lm1b", "decoder"]
    assert remote.config["model"]["value"]["heads"] == 3
    steps = {row[wandb_mirror.STEP] for row in remote.history}
    assert steps == {5, 7, 10, 14, 15, 19}
    assert_mirrored(remote, run)
    loss = run.result().metrics["test/loss"]
    assert remote.summary["test/loss"] == pytest.approx(loss, rel=1e-12)


@pytest.mark.slow
def test_online_with_its_core_killed(server, outputs, undisturbed):
    run = ended(outputs, ONLINE, sabotage=kill_core)
    assert science(run) == undisturbed
    assert run.id in server.runs, "it was never online: the check would be vacuous"
    assert server.runs[run.id].state == "running"
    assert log_of(run).count("warning: W&B is off") == 1


@pytest.mark.slow
@pytest.mark.parametrize("lacking", ["server", "key"])
def test_online_without(lacking, outputs, undisturbed, monkeypatch):
    monkeypatch.setenv(
        "WANDB_BASE_URL", "http://127.0.0.1:9"
    )  # nobody listens to that port
    monkeypatch.setenv("HOME", str(outputs))  # where a key might be kept
    if lacking == "server":
        monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    monkeypatch.setattr(wandb_mirror, "INIT_SECONDS", 1)
    run = ended(outputs, ONLINE)
    assert science(run) == undisturbed
    assert log_of(run).count("warning: W&B is offline for this run") == 1
    assert list(outputs.glob(f"wandb/offline-run-*-{run.id}/run-{run.id}.wandb"))
