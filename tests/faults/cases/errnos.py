"""Calls to the file system that fail now and then, in the sweep, its server and its jobs."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from tests.faults.cases.commands import GRID, PATIENCE_S, started_over, tables, undisturbed
from tests.faults.count import Count
from tests.faults.small import compare, reference

FAULTY = Path(__file__).resolve().parents[1] / "faulty"
RATE = 0.004  # of the calls that name something in the outputs folder


def injected(*, seed: int, count: int) -> Count:
    """Sweeps under EIO, EINTR, EACCES and ENOENT: each ends, in sentences; typed again it is whole.

    Nothing is known of how many calls failed, so a sweep counts as one fault.
    """
    tally = Count("EIO, EINTR, EACCES and ENOENT", seed)
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        quiet = Path(folder) / "quiet" / "outputs"
        expected = undisturbed(quiet, GRID)
        science = reference(quiet)
        for number in range(count):
            outputs = Path(folder) / str(number) / "outputs"
            command = started_over(outputs, quiet, GRID)
            tally.injected += 1
            faults = {"FOLDER": outputs, "RATE": RATE, "SEED": f"{seed} {number}"}
            environment = {f"FAULTY_{name}": str(value) for name, value in faults.items()}
            disturbed = command.type({**environment, "PYTHONPATH": str(FAULTY)})
            tally.hung += disturbed.wait(timeout=PATIENCE_S) not in (0, 1, 2)
            log = (outputs.parent / "command.log").read_text()
            tally.complaints += "Traceback" in log
            tally.complaints += command.finish() != 0
            compare(tally, outputs, science)
            tally.wrong += tables(outputs) != expected
    return tally
