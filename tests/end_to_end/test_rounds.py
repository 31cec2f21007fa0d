"""Tests of sweeps that decide claims by rounds of seeds, with real training."""

import re
import subprocess
import sys

import pytest

from benchmarks.measure import ROOT
from sweeper.store.runs import RunStore
from tests.end_to_end.test_sweep import numbers, python
from tests.faults.commands import verdicts
from tests.twins import ALIKE, PLANTED, arguments

pytestmark = pytest.mark.slow

ENDED = re.compile(r"verdicts? decided after (\d+) rounds?, (\d+) runs?")


def command(outputs, rates):
    return [
        "sweep.py",
        *arguments(outputs.parent / "conf", rates),
        f"paths.outputs={outputs}",
    ]


def sweep(outputs, *options, rates):
    return python(*command(outputs, rates), *options)


def answers(outputs):
    return [verdict for _, _, verdict, _ in verdicts(outputs)]


def found(outputs):
    """Return the verdicts without expected hours, and the metrics and weights of every run."""
    return verdicts(outputs), numbers(outputs)


def rounds_on(folder, launcher):
    """Run a short sweep of twins on a backend, two runs at a time, and return its results."""
    asked = [f"hydra/launcher={launcher}", "hydra.launcher.slots=2"]
    asked += ["trainer.accelerator=cpu", "hydra.sweeper.max_seeds=4"]
    ended = sweep(folder / "outputs", *asked, rates=PLANTED)
    assert "after 2 rounds, 8 runs" in ended.stdout
    return found(folder / "outputs")


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    outputs = tmp_path_factory.mktemp("planted") / "outputs"
    return outputs, sweep(outputs, rates=PLANTED).stdout


def test_a_planted_difference_is_found_and_nothing_is_trained_beyond_it(planted):
    outputs, said = planted
    assert answers(outputs) == ["not supported"]
    [(rounds, runs)] = ENDED.findall(said)
    assert int(rounds) > 1
    assert 6 < int(runs) == sum(map(bool, numbers(outputs).values())) < 60


def test_typed_twice_at_once_every_run_is_trained_once(planted, tmp_path):
    outputs = tmp_path / "outputs"
    asked = [sys.executable, *command(outputs, PLANTED)]
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    both = [subprocess.Popen(asked, cwd=ROOT, **pipe) for _ in range(2)]
    said = [process.communicate(timeout=400) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert {tuple(ENDED.findall(out)) for out, _ in said} == {
        tuple(ENDED.findall(planted[1]))
    }
    assert found(outputs) == found(planted[0])
    store = RunStore(outputs)
    for run in store.ids():  # who came second has withdrawn before its first step
        assert sum(one.metrics_path.exists() for one in store.run(run).attempts()) == 1


def test_twins_never_differ(tmp_path):
    sweep(tmp_path / "outputs", "hydra.sweeper.max_seeds=5", rates=ALIKE)
    [given] = answers(tmp_path / "outputs")
    assert given in ("undecided", "no difference beyond the margin")
