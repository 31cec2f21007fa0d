"""A run is thought to take as long as finished runs of its shape, then of its task, then of any."""

from __future__ import annotations

from sweeper.plan.plan import Run
from sweeper.plan.throughput import Throughput

ASSUMED = 7.0  # FLOP/s


def _run(task: str, heads: int, seed: int = 0, flops: int = 2310) -> Run:
    config = {
        "seed": seed,
        "task": {"name": task},
        "model": {"heads": heads},
        "trainer": {"precision": "32-true", "steps": flops},
    }
    size = {"tokens": flops, "flops_per_token": 1}
    return Run(id=f"{task}-{heads}-{seed}", config=config, size=size, names={})


def test_nothing_measured() -> None:
    throughput = Throughput([], ASSUMED)
    assert not throughput.measured
    assert throughput.seconds(_run("lm1b", 3)) == 2310 / ASSUMED


def test_a_run_of_no_steps_says_nothing_and_takes_no_time() -> None:
    evaluated = _run("lm1b", 3, flops=0)
    throughput = Throughput([(evaluated, 1.3)], ASSUMED)
    assert not throughput.measured
    assert throughput.seconds(_run("lm1b", 3)) == 2310 / ASSUMED
    assert throughput.seconds(evaluated) == 0


def test_the_likest_finished_runs_decide() -> None:
    finished = [
        (_run("lm1b", 3, seed=1), 11.0),
        (_run("lm1b", 3, seed=2, flops=2 * 2310), 22.0),  # as fast, and twice as long
        (_run("lm1b", 5), 33.0),
        (_run("mnli", 3), 77.0),
        (_run("mnli", 3, seed=1), 77.0),
    ]
    throughput = Throughput(finished, ASSUMED)
    assert throughput.measured
    assert throughput.seconds(_run("lm1b", 3, seed=4)) == 11.0
    assert throughput.seconds(_run("lm1b", 5, seed=4, flops=231)) == 3.3
    assert throughput.seconds(_run("lm1b", 13)) == 11.0  # the median of the task's 11, 11 and 33
    assert throughput.seconds(_run("squad", 3)) == 33.0  # the median of all
