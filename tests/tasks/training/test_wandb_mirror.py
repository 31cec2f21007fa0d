"""Tests that a run gets the same result if W&B fails. A fake of W&B fails in every way."""

import sys
import time
from unittest.mock import Mock

import pytest

from tasks.training import wandb_mirror
from tests.tasks.jobs import ended, log_of, science


def hang(*_, **__):
    time.sleep(10**6)


# What a call does, by its place in the fake module.
INIT = "init.side_effect"
LOG = "init.return_value.log.side_effect"
FINISH = "init.return_value.finish.side_effect"
BROKEN = {
    "raises in init": {INIT: RuntimeError("no core")},
    "exits in init": {INIT: SystemExit(1)},
    "hangs in init": {INIT: hang},
    "loses its core": {LOG: ConnectionResetError("gone")},
    "hangs in log": {LOG: hang},
    "raises in finish": {FINISH: BrokenPipeError("gone")},
    "hangs in finish": {FINISH: hang},
    "is not installed": None,
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_one_costs_one_warning_and_nothing_else(fault, outputs, undisturbed):
    breaks = BROKEN[fault]

    def replace():
        # With None, the import fails.
        sys.modules["wandb"] = breaks and Mock(**{"errors.Error": EOFError}, **breaks)
        wandb_mirror.FINISH_SECONDS = 1  # of its patience with what hangs

    run = ended(outputs, {"logger.name": "wandb"}, sabotage=replace)
    assert science(run) == undisturbed
    log = log_of(run)
    assert log.count("warning: W&B") == 1


def test_without_it_nothing_of_it_is_imported(outputs):
    run = ended(
        outputs, sabotage=lambda: sys.modules.update(wandb=None)
    )  # no import works
    assert "W&B" not in log_of(run)
