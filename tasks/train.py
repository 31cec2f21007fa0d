"""The job entry: `python -m tasks.train outputs/runs/<id>` trains what the record describes.

In: the directory of a frozen run. Out: its result.json. It claims an attempt, continues from the
newest checkpoint that is whole (training/attempt.py), trains (training/fit.py) and publishes.
Exit code 0: the result is there; 75: interrupted, can be continued; 1: failed, exit.json says why.
Its output goes to the attempt's log.txt; `python -m sweeper status --watch` shows how far it is.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from tasks.command import directory
from tasks.training.gc_freeze import lasting


def main(argument: str) -> int:
    """Do the job of a run directory; the exit code."""
    from tasks.training.attempt import train  # torch and Lightning take seconds

    return train(argument, _parts_that_fit)


def _parts_that_fit(config: Mapping[str, Any]) -> int:
    from tasks.memory import parts_that_fit  # which few runs ask for

    return parts_that_fit(config)


if __name__ == "__main__":
    run = directory("tasks.train", __doc__)
    with lasting():  # this process does one job
        import_module("tasks.training.attempt")
    sys.exit(main(run))
