"""Times a sweep of small runs beside other ways to start them: `python -m benchmarks.makespan`.

The same runs, from starting the command to its end, in wall seconds: for numbers worth keeping,
nothing else may be running. The bound is what no scheduler can beat: all training seconds shared
out among the slots, or those of the longest run. Ours includes planning, tables and figures.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.measure import Facts, arguments, call, leave, present, speed_ups

if __name__ == "__main__":
    arguments(__doc__)  # --help is answered before torch is imported

from benchmarks.runs import forget, frozen
from sweeper.run.backends.local import cores
from sweeper.store.runs import Run

HYDRA_PEER, RAY_PEER = (
    str(Path(__file__).with_name(name)) for name in ("hydra_peer.py", "ray_peer.py")
)
# Hydra's launchers: their plugin, and how they are told how many at a time. submitit's local one
# cannot be told: it starts all runs at once, a process each.
LAUNCHERS = {
    "joblib": ("hydra_plugins.hydra_joblib_launcher", ["hydra.launcher.n_jobs={slots}"]),
    "submitit_local": ("hydra_plugins.hydra_submitit_launcher", []),
}
SEEDS = ",".join(map(str, range(6)))
STEPS = 330  # about 5 s
ROUNDS = 2  # one takes minutes and is of many runs; more of them tell the spread


Way = Callable[[Path, list[Run]], None]


def results(smoke: bool) -> Iterator[Facts]:
    slots = cores()
    grid = (
        "model.heads=4" if smoke else "model.heads=4,8",
        "seed=0" if smoke else f"seed={SEEDS}",
        "optimizer.warmup_steps=1",
        f"trainer.steps={2 if smoke else STEPS}",
        "logger=none",
    )
    ways = _ways(grid, slots, smoke=smoke)
    with TemporaryDirectory() as folder:
        runs = frozen(Path(folder), *grid)
        times, bounds = _timed(ways, Path(folder), runs, slots)
    yield {
        "runs": len(runs),
        "slots": slots,
        "rounds": ROUNDS,
        "seconds": {name: round(median(values), 2) for name, values in times.items()},
        "bound": round(median(bounds), 2),
        "over_bound": round(
            median(a / b for a, b in zip(times["headroom"], bounds, strict=True)), 3
        ),
        "speed_up": speed_ups(times, "headroom", ways),
    }


def _timed(
    ways: dict[str, Way], outputs: Path, runs: list[Run], slots: int
) -> tuple[dict[str, list[float]], list[float]]:
    """The seconds of every way, round by round, and the least that the training alone took."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    bounds = []
    for _ in range(ROUNDS):
        for name, way in ways.items():
            for run in runs:
                forget(run)
            begun = time.monotonic()
            way(outputs, runs)
            times[name].append(time.monotonic() - begun)
            results = [run.result() or {} for run in runs]
            unfinished = sum(not result for result in results)
            assert not unfinished, f"{name}: {unfinished} of {len(runs)} runs are not done"
            if name == "headroom":
                seconds = [float(result["seconds"]) for result in results]
                bounds.append(max(sum(seconds) / slots, max(seconds)))
    return times, bounds


def _ways(grid: tuple[str, ...], slots: int, *, smoke: bool) -> dict[str, Way]:
    def ours(outputs: Path, runs: list[Run]) -> None:
        call("sweep.py", "-m", *grid, f"paths.outputs={outputs}")

    def processes(outputs: Path, runs: list[Run]) -> None:
        with ThreadPoolExecutor(slots) as pool:
            list(pool.map(lambda run: call("-m", "tasks.train", str(run.path)), runs))

    ways = {"headroom": ours, "process per run": processes, "hydra basic": _hydra()}
    return ways if smoke else ways | _installed(slots)


def _installed(slots: int) -> dict[str, Way]:
    ways = {}
    for launcher, (plugin, options) in LAUNCHERS.items():
        if present(plugin):
            told = [option.format(slots=slots) for option in options]
            ways[f"hydra {launcher}"] = _hydra(f"hydra/launcher={launcher}", *told)
    if present("ray"):
        ways["ray tune"] = _ray_tune(slots)
    return ways


def _hydra(*options: str) -> Way:
    def way(outputs: Path, runs: list[Run]) -> None:
        ids = ",".join(run.id for run in runs)
        folder = f"hydra.sweep.dir={outputs}/hydra"
        call(HYDRA_PEER, "-m", f"run={ids}", f"outputs={outputs}", folder, *options)

    return way


def _ray_tune(slots: int) -> Way:
    def way(outputs: Path, runs: list[Run]) -> None:
        call(RAY_PEER, str(outputs), str(slots), *(run.id for run in runs))

    return way


if __name__ == "__main__":
    leave(results)
