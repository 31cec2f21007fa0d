"""Tests with a real Ray on this machine: equal results, and runs that stop when asked."""

import os
import signal
import subprocess
import time
from importlib.util import find_spec

import pytest

from sweeper.store.runs import RunStore
from tests.end_to_end.test_rounds import rounds_on
from tests.end_to_end.test_sweep import ROOT, command, python, sweep
from tests.tasks.jobs import freeze

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not find_spec("ray"), reason="real Ray: ray not installed"),
]
SIGNALLED = """
import json, signal, sys
from pathlib import Path
from sweeper.size_server import SizeServer
from sweeper.run.backends.ray import backend
from sweeper.run.backend import BackendContext, Resources
from tests.policies import launcher
from tests.tasks.jobs import config
run = Path(sys.argv[1])
resources = {Resources.of(config())}
context = BackendContext(launcher("ray"), resources, "none", run.parent.parent, SizeServer())
ray = backend(context)
job = ray.start(run, 0)
while not list(run.glob("attempts/0001/checkpoints/step-*.ckpt")):
    assert ray.ended(0.05) == [], "it ended before its first checkpoint"
pid = json.loads((run / "attempts/0001/attempt.json").read_text())["pid"]
assert b"RAY_" not in Path(f"/proc/{pid}/environ").read_bytes(), "the run knows Ray's token"
ray.signal(job, signal.SIGTERM)
while not (ended := ray.ended(0.05)):
    pass
assert ended == [job]
"""


def test_rounds_and_numbers_are_the_same_as_on_this_machine(tmp_path):
    here, there = (rounds_on(tmp_path / name, name) for name in ("local", "ray"))
    assert there == here


def test_a_run_that_is_signalled_saves_and_the_token_stays_with_ray(tmp_path):
    run = freeze(tmp_path, {"trainer.steps": 10**6, "trainer.validate_every": 0})
    python("-c", SIGNALLED, run.path, env={"PYTHONPATH": "."})
    assert run.attempts()[0].exit()["cause"] == "interrupted"
    assert run.checkpoints()


def test_a_run_that_no_node_has_room_for_is_refused_when_it_is_planned(tmp_path):
    asked = ["-m", "model.heads=1,2", "hydra/launcher=ray", "trainer.threads=1024"]
    refused = sweep(tmp_path, *asked, "trainer.accelerator=gpu", code=2)
    assert (
        "hydra/launcher=ray: expected a node with {CPU: 1024, GPU: 1} for"
        in refused.stderr
    )
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_waits_for_room_ends_when_asked(tmp_path, number):
    # Every run takes all of the machine, so the second waits for the first, which never ends.
    every = f"hydra.launcher.cpus_per_device={len(os.sched_getaffinity(0))}"
    grid = ["-m", "model.heads=1,2", "model.head_size=4", "trainer.steps=1000000"]
    asked = command(
        tmp_path, *grid, "hydra/launcher=ray", every, "hydra.launcher.slots=2"
    )
    log = tmp_path / "log.txt"
    with log.open("w") as said:
        process = subprocess.Popen(asked, cwd=ROOT, stdout=said, stderr=said)
    store = RunStore(tmp_path)
    while not any(store.run(id).attempts() for id in store.ids()):
        assert process.poll() is None, log.read_text()
        time.sleep(0.1)
    assert len([id for id in store.ids() if store.run(id).attempts()]) <= 1
    process.send_signal(number)
    assert process.wait(timeout=60) == 128 + number, log.read_text()
    assert "running jobs were saved" in log.read_text()
