"""Simulates runs that share a GPU beside one after the other: `python -m benchmarks.placing`.

Each plan of gpu scale on one GPU of 141 GB, placed by sweeper/run/placing.py with predicted memory.
A run starts, which takes the host alone, then does its steps: each as long as the host launches or
the GPU computes, whichever is longer, and runs that share a GPU slow down together once it has no
time left. How long is what the plan assumes (sweeper/plan/throughput.py): inferred, not measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from tempfile import TemporaryDirectory

from benchmarks.measure import Facts, arguments, leave

if __name__ == "__main__":
    arguments(__doc__)  # --help is answered before anything else is imported

from benchmarks.runs import planned
from sweeper.plan.gpu_memory import predicted
from sweeper.plan.plan import Plan, Run
from sweeper.plan.throughput import Throughput, computing
from sweeper.run.placing import Share, fits
from sweeper.size_server import SizeServer
from sweeper.train import jobs

EXPERIMENTS = ("fig1", "fig2", "fig3", "fig4", "table3")
MEMORY_GB = 141


@dataclass
class Training:
    """A run on the GPU: what is left of it, in seconds of its own."""

    share: Share | None
    start_s: float
    step_s: float
    """All steps, alone."""
    load: float
    """The part of the GPU's time that its steps take, alone."""

    def left(self, speed: float) -> float:
        """Seconds until it ends its start, or all of it, at this speed of steps."""
        return self.start_s or self.step_s / speed

    def go_on(self, seconds: float, speed: float) -> None:
        """Let time pass."""
        if self.start_s:
            self.start_s = max(0.0, self.start_s - seconds)
            self.start_s *= self.start_s > 1e-9
        else:
            self.step_s -= seconds * speed


def results(smoke: bool) -> Iterator[Facts]:
    found = {}
    for name in EXPERIMENTS[:1] if smoke else EXPERIMENTS:
        plan, needs = _planned(name, "demo" if smoke else "gpu")
        alone, shared = (makespan(plan, given) for given in ({}, needs))
        found[name] = {
            "runs": len(plan.runs),
            "alone_min": round(alone / 60, 1),
            "shared_min": round(shared / 60, 1),
            "speed_up": round(alone / shared, 2),
        }
    yield {"plans": found}


def makespan(plan: Plan, needs: Mapping[str, float]) -> float:
    """The seconds of all runs on one GPU, which those with GB in `needs` may share."""
    ordered = sorted(jobs(list(plan.runs.values()), needs), key=lambda job: -job.cost)
    done: set[str] = set()
    running: dict[str, Training] = {}
    now = 0.0
    while len(done) < len(ordered):
        ready = (job for job in ordered if job.run not in done | running.keys())
        for job in (job for job in ready if job.parent is None or job.parent in done):
            if not fits(job.share, [one.share for one in running.values()], MEMORY_GB):
                break
            running[job.run] = _training(plan.runs[job.run], job.share)
        speed = _speed(list(running.values()))
        seconds = min(one.left(speed) for one in running.values())
        for run, one in list(running.items()):
            one.go_on(seconds, speed)
            if one.step_s < 1e-9:
                done.add(run)
                del running[run]
        now += seconds
    return now


def _speed(running: Sequence[Training]) -> float:
    """Of steps, where 1 is what each would do alone."""
    load = sum(one.load for one in running if not one.start_s)
    return min(1.0, 1 / load) if load else 1.0


def _training(run: Run, share: Share | None) -> Training:
    took = Throughput("gpu").expected(run)
    steps = max(took.training, 1e-6)
    return Training(share, took.beside, steps, computing(run) / steps)


def _planned(experiment: str, scale: str) -> tuple[Plan, dict[str, float]]:
    with TemporaryDirectory() as folder, SizeServer() as process:
        choices = (f"experiment={experiment}", f"scale={scale}", "data=sample")
        plan = planned(process, folder, *choices)
        return plan, predicted(process, plan, None)


if __name__ == "__main__":
    leave(results)
