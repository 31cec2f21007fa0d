"""Whatever Weights & Biases does, the run computes the same bits and ends."""

import json
import subprocess
import sys
import time
import types

import pytest

from tasks.training import wandb_mirror
from tasks.training.loop import TrainingModule
from tests.tasks.jobs import freeze, instead_of_call, kill_self, run_job, science

WANDB = {"logger.name": "wandb"}


class Stub(types.ModuleType):
    """Stands in for wandb and writes down what it is told; one of its calls may misbehave."""

    class errors:
        class Error(Exception):
            pass

    def __init__(self, told, breaks="", how=kill_self):
        super().__init__("wandb")
        self.told, self.breaks, self.how = told, breaks, how

    def tell(self, call, value):
        if call == self.breaks:
            self.how()
        with self.told.open("a") as file:
            file.write(json.dumps([call, value]) + "\n")

    def Settings(self, **settings):
        return settings

    def init(self, settings, **arguments):
        self.tell("init", arguments)
        return self

    def teardown(self):
        self.tell("teardown", None)

    def define_metric(self, name, **how):
        self.tell("define_metric", name)

    def log(self, row):
        self.tell("log", row)

    def finish(self, exit_code):
        self.tell("finish", exit_code)


def raise_(error):
    def action():
        raise error

    return action


def hang():
    time.sleep(10**6)


def run_with(stub, outputs, changes=WANDB):
    run, told = freeze(outputs, changes), outputs / "told.txt"

    def replace():
        sys.modules["wandb"] = stub  # None: the import fails
        wandb_mirror.FINISH_SECONDS = 1  # of its patience with what hangs

    assert run_job(run, replace) == 0
    lines = told.read_text().splitlines() if told.exists() else []
    return run, [json.loads(line) for line in lines]


def test_it_is_told_what_the_run_is_and_every_row(outputs, undisturbed):
    run, told = run_with(Stub(outputs / "told.txt"), outputs)
    (arguments,) = [value for call, value in told if call == "init"]
    assert arguments["id"] == run.id
    assert (arguments["group"], arguments["job_type"]) == ("none", "none")
    assert arguments["mode"] == "offline"
    assert arguments["dir"] == str(outputs)
    assert arguments["tags"] == ["none", "lm1b", "decoder"]
    assert arguments["config"]["model"]["heads"] == 3
    assert arguments["config"]["names"]["arm"] == "none"
    rows = [value for call, value in told if call == "log"]
    assert {row["trainer/global_step"] for row in rows} == {5, 7, 10, 14, 15, 19}
    losses = [row["train/loss"] for row in rows if "train/loss" in row]
    assert losses == [row["train/loss"] for row in run.history() if "train/loss" in row]
    assert told[-1] == ["finish", 0]
    assert science(run) == undisturbed


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
    breaks = BROKEN[fault]
    run, _ = run_with(Stub(outputs / "told.txt", *breaks) if breaks else None, outputs)
    assert science(run) == undisturbed
    log = run.attempts()[0].log_path.read_text()
    assert log.count("warning: W&B is off for this run") == 1


def test_a_server_out_of_reach_means_offline(outputs, undisturbed):
    stub = Stub(outputs / "told.txt")
    attempts = iter([raise_(stub.errors.Error("no key")), lambda: None])
    stub.breaks, stub.how = "init", lambda: next(attempts)()
    run, told = run_with(stub, outputs, {**WANDB, "logger.mode": "online"})
    assert [call for call, _ in told[:2]] == ["teardown", "init"]
    assert told[1][1]["mode"] == "offline"
    assert science(run) == undisturbed


def test_a_failed_run_is_no_finished_run_there(outputs):
    stub = Stub(outputs / "told.txt")
    run = freeze(outputs, {**WANDB, "optimizer.learning_rate": 100.0, "model.dropout": 0.0})

    def sabotage():
        sys.modules["wandb"] = stub
        instead_of_call(TrainingModule, "training_step", 11, ZeroDivisionError())

    assert run_job(run, sabotage) == 1
    assert json.loads(stub.told.read_text().splitlines()[-1]) == ["finish", 1]


def test_without_it_nothing_of_it_is_imported(outputs):
    run = freeze(outputs)
    script = (
        "import sys; from tasks.train import main; "
        f"code = main({str(run.path)!r}); assert 'wandb' not in sys.modules; sys.exit(code)"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True).returncode == 0
