"""Plans points of distinct shapes, half of them matched: `python -m benchmarks.planning`.

For each number of points, up to 10,000: wall and CPU seconds and peak memory of the planner and the
model process; beside it what Hydra's sweepers, the basic one and joblib's alike, take to compose
the config of one point, which is all they plan: they count no parameters and match none.
"""

from __future__ import annotations

import os
import resource
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hydra.types import RunMode

from benchmarks.measure import Facts, leave
from sweeper.hydra_section import composer
from sweeper.plan.compose import CONF
from sweeper.plan.planner import Planner
from sweeper.size_server import SizeServer

EXPERIMENT = """# @package _global_
experiment:
  title: ten thousand points
  metric: test/loss
  arms:
    counted:
      label: every shape
      set: {model.head_size: 8}
      grid:
        model.heads: [%(heads)s]
        model.feedforward_size: [%(widths)s]
    matched:
      label: matched to a hundred of them
      set: {model.head_size: null}
      grid: {model.embedding_size: [%(sizes)s]}
      match:
        to: counted
        solve: model.feedforward_size
        tolerance: 1.0
        where: model.feedforward_size == 4096
"""


COMPOSED = 50
HEADS = (1, 10, 100)  # a hundred points each


def results(smoke: bool) -> Iterator[Facts]:
    for heads in HEADS[:1] if smoke else HEADS:
        yield _planned(heads)


def _planned(heads: int) -> dict[str, Any]:
    with TemporaryDirectory() as folder:
        conf = Path(folder) / "conf"
        shutil.copytree(CONF, conf)
        grid = {"heads": range(1, heads + 1), "widths": range(4096 - 49 * 8, 4097, 8)}
        values = {name: ", ".join(map(str, numbers)) for name, numbers in grid.items()}
        values["sizes"] = ", ".join(str(4 * number) for number in range(1, 51))
        (conf / "experiment" / "many.yaml").write_text(EXPERIMENT % values)
        begun, used = time.monotonic(), time.process_time()
        asked = ["experiment=many", "seed=0", f"paths.outputs={folder}/outputs"]
        with SizeServer() as process:
            plan = Planner(composer(conf), process, max_runs=10**6).plan(asked)
            wall = time.monotonic() - begun
            assert process._process is not None
            other = _other(process._process.pid)
        used = time.process_time() - used
        hydra = _hydra_s_per_point(conf)
    return {
        "points": len(plan.points),
        "matched": sum(point.matched is not None for point in plan.points),
        "wall_s": round(wall, 1),
        "cpu_s": round(used, 1),
        "memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        **other,
        "cpu_s_per_point": round((used + other["model_process_cpu_s"]) / len(plan.points), 4),
        "hydra_cpu_s_per_point": round(hydra, 4),
    }


def _hydra_s_per_point(conf: Path) -> float:
    """CPU seconds in which Hydra composes the config of a point of this grid."""
    loader = composer(conf).loader
    begun = time.process_time()
    for heads in range(1, COMPOSED + 1):
        overrides = [f"model.heads={heads}", "model.head_size=8", "model.feedforward_size=4096"]
        loader.load_configuration("config", overrides, run_mode=RunMode.MULTIRUN)
    return (time.process_time() - begun) / COMPOSED


def _other(pid: int) -> dict[str, float]:
    """CPU seconds and peak memory of the model process."""
    ticks = os.sysconf("SC_CLK_TCK")
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    [peak] = [int(line.split()[1]) for line in status if line.startswith("VmHWM")]
    return {
        "model_process_cpu_s": round((int(fields[11]) + int(fields[12])) / ticks, 1),
        "model_process_memory_mb": round(peak / 1024),
    }


if __name__ == "__main__":
    leave(results)
