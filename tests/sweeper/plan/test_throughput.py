"""A run is thought to take what is assumed of its device, corrected by what runs like it took."""

from __future__ import annotations

import pytest

from sweeper.plan.plan import Run
from sweeper.plan.throughput import Throughput


def _run(task: str, heads: int, seed: int = 0, steps: int = 2310) -> Run:
    config = {
        "seed": seed,
        "task": {"name": task},
        "model": {"heads": heads, "layers": 3},
        "trainer": {"precision": "32-true", "steps": steps},
    }
    size = {"tokens": 5 * steps, "flops_per_token": 7 * heads}
    return Run(id=f"{task}-{heads}-{seed}", config=config, size=size, names={})


ASSUMED = {name: Throughput("cpu").expected(_run(*name)) for name in (("lm1b", 3), ("lm1b", 5))}


def test_where_nothing_was_measured_steps_and_operations_cost_what_is_assumed() -> None:
    throughput = Throughput("cpu")
    assert not throughput.measured
    one, half = (throughput.expected(_run("lm1b", 3, steps=n)) for n in (2310, 1155))
    assert one.training == pytest.approx(2 * half.training)
    assert one.beside == pytest.approx(half.beside)
    assert ASSUMED["lm1b", 3].training < ASSUMED["lm1b", 5].training


def test_a_run_of_no_steps_says_nothing_of_training_and_takes_none() -> None:
    throughput = Throughput("cpu")
    throughput.learn(_run("lm1b", 3, steps=0), 0.0, 1.3)
    assert not throughput.measured
    assert throughput.expected(_run("lm1b", 3, steps=0)) == pytest.approx((0, 1.3))
    other = throughput.expected(_run("lm1b", 3))
    assert other.training == ASSUMED["lm1b", 3].training
    assert other.beside > 1.3, "a run whose steps take longer is evaluated for longer"


def test_the_likest_measured_runs_decide() -> None:
    throughput = Throughput("cpu")
    finished = [
        (_run("lm1b", 3, seed=1), 11.0, 2.0),
        (_run("lm1b", 3, seed=2, steps=2 * 2310), 22.0, 2.0),  # as fast, and twice as long
        (_run("lm1b", 5), 33.0, 3.0),
        (_run("mnli", 3), 77.0, 5.0),
        (_run("mnli", 3, seed=1), 77.0, 5.0),
    ]
    for run, training, beside in finished:
        throughput.learn(run, training, beside)
    assert throughput.measured
    assert throughput.expected(_run("lm1b", 3, seed=4)) == pytest.approx((11.0, 2.0))
    tenth = throughput.expected(_run("lm1b", 5, seed=4, steps=231))
    assert tenth == pytest.approx((3.3, 3.0))
    # The task's median, from shape to shape as is assumed.
    per_assumed = ASSUMED["lm1b", 3].training / 11
    of_another = throughput.expected(_run("lm1b", 13))
    assert of_another.training * per_assumed == pytest.approx(
        Throughput("cpu").expected(_run("lm1b", 13)).training
    )
    assert of_another.beside == pytest.approx(2.0, rel=0.01)
    assert throughput.expected(_run("squad", 3)).beside == pytest.approx(3.0, rel=0.01)  # of all


def test_a_part_of_a_training_tells_of_the_whole_until_the_whole_does() -> None:
    throughput = Throughput("cpu")
    throughput.learn(_run("lm1b", 3), 0.1, None, share=0.01)
    assert not throughput.measured, "that was too short to tell anything"
    throughput.learn(_run("lm1b", 3), 13.0, None, share=0.25)
    assert throughput.expected(_run("lm1b", 3)).training == pytest.approx(52.0)
    throughput.learn(_run("lm1b", 3), 47.0, 3.0)
    assert throughput.expected(_run("lm1b", 3, seed=1)) == pytest.approx((47.0, 3.0))


def test_on_a_gpu_a_step_takes_what_is_launched_or_what_is_computed() -> None:
    throughput = Throughput("gpu")
    small, large = _run("lm1b", 3), _run("lm1b", 3)
    large.size["flops_per_token"] *= 10**12
    launched = throughput.expected(small).training
    assert launched == throughput.expected(_run("lm1b", 5)).training
    assert throughput.expected(large).training > 10 * launched
