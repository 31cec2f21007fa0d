"""Simulates sweeps at gpu scale, runs sharing a GPU or not: `python -m benchmarks.placing`.

Nothing is trained, and no GPU was asked. A run keeps the GPU busy for its FLOPs at the rate that
plans assume, and the host for each layer of each step; alone it takes the longer of the two. Runs
that share a GPU are slowed alike once they ask for more of it than there is, and cost nothing else.
What they need of memory is predicted; which are beside each other sweeper/run/placing.py decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from tempfile import TemporaryDirectory

from benchmarks.measure import arguments, leave
from sweeper.hydra_section import composer
from sweeper.model_process import ModelProcess
from sweeper.plan.gpu_memory import predicted
from sweeper.plan.plan import Plan
from sweeper.plan.planner import Planner
from sweeper.plan.show import ASSUMED_RATE
from sweeper.run.placing import Share, placed

HOST_S = 7.5e-3 / 6  # a layer's part of a step, forward and back: assumed, 7 to 8 ms at six layers
SWEEPS = {"fig1": ("experiment=fig1",), "fig2": ("experiment=fig2",)}
GPUS = {"one of 141 GB": (1, 141.0), "one of 40 GB": (1, 40.0), "four of 80 GB": (4, 80.0)}
EXACT = 1e-9  # relative


@dataclass
class Simulated:
    """A run: seconds of its own that are left, alone on a GPU, and the part it keeps that busy."""

    id: str
    parent: str | None
    need: Share
    left: float
    busy: float
    gpu: int | None = None
    share: Share | None = None


def main() -> None:
    """Simulate every sweep and leave a line each."""
    options = arguments(__doc__)
    sweeps = {"fig1": (*SWEEPS["fig1"], "seed=0")} if options.smoke else SWEEPS
    for name, typed in sweeps.items():
        with TemporaryDirectory() as folder, ModelProcess() as process:
            overrides = [*typed, "scale=gpu", f"paths.outputs={folder}"]
            plan = Planner(composer(), process, max_runs=1000).plan(overrides)
            needs = predicted(process, plan, None)
        found = {}
        for there, (gpus, memory) in GPUS.items():
            alone, shared = (
                makespan(_runs(plan, needs), gpus, memory, together=together)
                for together in (False, True)
            )
            bound = sum(run.left * run.busy for run in _runs(plan, needs)) / gpus
            found[there] = {"bound": round(bound), "alone": round(alone), "shared": round(shared)}
        waiting = sum(run.need.is_host_bound for run in _runs(plan, needs))
        facts = {
            "runs": len(plan.runs),
            "host_bound": waiting,
            "most_gb": round(max(needs.values()), 1),
        }
        leave(options.lines, "placing", {"shape": name, **facts, "seconds": found})


def makespan(runs: list[Simulated], gpus: int, memory: float, *, together: bool) -> float:
    """Seconds until the last of the runs, the longest of which are first, is done."""
    waiting, running, now = runs, list[Simulated](), 0.0
    while waiting or running:
        undone = {run.id for run in (*waiting, *running)}
        for run in [run for run in waiting if run.parent not in undone]:
            held = [[one.share for one in running if one.gpu == gpu] for gpu in range(gpus)]
            there = placed(run.need, held, memory)  # type: ignore[arg-type]
            if there and (together or not held[there[0]]):
                run.gpu, run.share = there
                running.append(run)
        waiting = [run for run in waiting if run.gpu is None]
        busy = [sum(run.busy for run in running if run.gpu == gpu) for gpu in range(gpus)]
        slowed = {run.id: max(1.0, busy[run.gpu or 0]) for run in running}
        passed = min(run.left * slowed[run.id] for run in running)
        now += passed
        for run in running:
            run.left -= passed / slowed[run.id]
        running = [run for run in running if run.left > EXACT * now]
    return now


def _runs(plan: Plan, needs: dict[str, float]) -> list[Simulated]:
    """The runs of a plan as a schedule has them: those of the most FLOPs first."""
    found = []
    for run in sorted(plan.runs.values(), key=lambda run: -run.flops):
        gpu = run.flops / ASSUMED_RATE["gpu"]
        host = HOST_S * run.config["model"]["layers"] * run.config["trainer"]["steps"]
        need = Share(needs[run.id], is_host_bound=host > gpu)
        longer = max(gpu, host)
        found.append(Simulated(run.id, run.parent, need, longer, gpu / longer))
    return found


if __name__ == "__main__":
    main()
