"""Tests that a run gets the same result if W&B fails. A fake of W&B fails in every way."""

import sys
import time
import types

import pytest

from tasks.training import wandb_mirror
from tests.tasks.jobs import ended, science

WANDB = {"logger.name": "wandb"}


class Stub(types.ModuleType):
    """A fake of the module `wandb`, in which one call fails or hangs."""

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
    breaks = BROKEN[fault]

    def replace():
        sys.modules["wandb"] = (
            Stub(*breaks) if breaks else None
        )  # None: the import fails
        wandb_mirror.FINISH_SECONDS = 1  # of its patience with what hangs

    run = ended(outputs, WANDB, sabotage=replace)
    assert science(run) == undisturbed
    log = run.attempts()[0].log_path.read_text()
    assert log.count("warning: W&B is off for this run") == 1


def test_without_it_nothing_of_it_is_imported(outputs):
    run = ended(
        outputs, sabotage=lambda: sys.modules.update(wandb=None)
    )  # no import works
    assert "W&B" not in run.attempts()[0].log_path.read_text()
