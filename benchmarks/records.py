"""Collects and draws 10,000 synthetic records: `python benchmarks/records.py [runs]`.

They are those of a Figure 1 with five seeds, each with the whole config of a run. Prints a line of
JSON: wall and CPU seconds of `collect` and of `draw`, each the command that a person types.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sweeper.plan.compose import Composer
from tests.sweeper.results.grids import Grid, figure1

ROOT = Path(__file__).resolve().parents[1]
SEEDS = 5


def main(runs: int) -> None:
    """Write the records, measure and print."""
    with TemporaryDirectory() as folder:
        records = write_records(Path(folder), runs)
        spent = {name: timed(name, folder) for name in ("collect", "draw")}
    total = {key: round(sum(one[key] for one in spent.values()), 1) for key in ("wall_s", "cpu_s")}
    print(json.dumps({"records": records, **total, **spent, "load": os.getloadavg()[0]}))


def write_records(outputs: Path, runs: int) -> int:
    """A plan of `runs` runs, all of them done; how many there are."""
    # Half of the points in either arm; the paper's matched arm adds a few of its own.
    each = runs // SEEDS // 2
    sizes = [64 * place for place in range(1, each // 4 + 1)]
    grid = Grid(sizes, (2, 4, 8, 16), tuple(range(2, each + 2)))
    sweep = figure1(grid=grid, seeds=SEEDS)
    whole = Composer().base(["task=lm1b"]).run({})
    for record in sweep.records.values():
        record["config"] = {**whole, **record["config"]}
    with patch("os.fsync"):  # nothing here has to outlive a power cut
        sweep.write(outputs)
    return len(sweep.records)


def timed(command: str, outputs: str) -> dict[str, float]:
    """Wall and CPU seconds of a command of the sweeper."""
    begun, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "sweeper", command, f"--outputs={outputs}"],
        cwd=ROOT,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall_s": round(time.monotonic() - begun, 1), "cpu_s": round(cpu, 1)}


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
