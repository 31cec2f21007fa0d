"""Calls to the file system that fail now and then, in the sweep, its server and its jobs."""

from __future__ import annotations

from pathlib import Path

from tests.faults.cases.commands import GRID, PATIENCE_S, disturbed
from tests.faults.count import Count

FAULTY = Path(__file__).resolve().parents[1] / "faulty"
RATE = 0.004  # of the calls that name something in the outputs folder


def injected(*, seed: int, count: int) -> Count:
    """Sweeps under EIO, EINTR, EACCES and ENOENT: each ends, in sentences; typed again it is whole.

    Nothing is known of how many calls failed, so a sweep counts as one fault.
    """
    tally = Count("EIO, EINTR, EACCES and ENOENT", seed)
    for number, command in disturbed(tally, GRID, range(count)):
        tally.injected += 1
        faults = {"FOLDER": command.outputs, "RATE": RATE, "SEED": f"{seed} {number}"}
        environment = {f"FAULTY_{name}": str(value) for name, value in faults.items()}
        faulty = command.type({**environment, "PYTHONPATH": str(FAULTY)})
        tally.hung += faulty.wait(timeout=PATIENCE_S) not in (0, 1, 2)
        tally.complaints += "Traceback" in command.log()
        tally.complaints += command.finish() != 0
    return tally
