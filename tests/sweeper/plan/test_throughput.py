"""Expected durations and sizes, and how long they are remembered."""

import os
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from sweeper.plan.facts import Facts
from sweeper.plan.plan import PlannedRun
from sweeper.plan.throughput import CPU, GPUS, NEWEST, Throughput
from sweeper.size_server import SizeServer


def _run(task: str, heads: int, seed: int = 0, steps: int = 2310) -> PlannedRun:
    config = {
        "seed": seed,
        "task": {"name": task},
        "model": {"heads": heads, "layers": 3},
        "trainer": {"precision": "32-true", "steps": steps},
    }
    size = {"tokens": 5 * steps, "flops_per_token": 7 * heads}
    return PlannedRun(id=f"{task}-{heads}-{seed}", config=config, size=size, names={})


@pytest.mark.parametrize("sharing", [1, 2])
def test_before_any_measurement_a_run_takes_what_the_rule_says(sharing):
    rule = CPU
    throughput = Throughput("cpu", sharing=sharing)
    assert not throughput.measured
    steps, flops = 2310 * (rule.step + 3 * rule.layer), 5 * 2310 * 21 * rule.flop
    seconds = sharing * (steps + 5 * 2310 * (rule.token + 3 * 3 * rule.head) + flops)
    assert throughput.expected(_run("lm1b", 3)) == pytest.approx((seconds, rule.beside))


def test_runs_of_one_task_say_how_fast_the_machine_is_for_another():
    throughput, assumed = Throughput("cpu"), Throughput("cpu")
    run, other = _run("representation", 2), _run("lm1b", 5)
    throughput.learn(run, 7 * assumed.expected(run).training, 0.3)
    assert throughput.expected(other) == pytest.approx((7 * assumed.expected(other).training, 0.3))


def _on_gpu(gpu: str = "NVIDIA H100 80GB HBM3", sharing: int = 1, **changes: Any) -> float:
    """Seconds of 7 steps of a model as large as in the paper, with changes to it."""
    found = {"precision": "bf16-mixed", "batch_tokens": 32_768, **changes}
    shape = {"heads": 8, "head_size": 32, "feedforward_size": 1024, "layers": 6, **changes}
    model = {key: shape[key] for key in ("heads", "feedforward_size", "layers")}
    task = {"name": "lm1b", "sequence_length": 256, "vocabulary_size": 16_384}
    trainer = {"precision": found["precision"], "steps": 7}
    config = {"model": {"embedding_size": 256, **model}, "task": task, "trainer": trainer}
    flops = found.get("flops", 60_000_000)
    counts = {"head_size": shape["head_size"], "width": shape["heads"] * shape["head_size"]}
    size = {"tokens": 7 * found["batch_tokens"], "flops_per_token": flops, **counts}
    run = PlannedRun(id="one", config=config, size=size, names={})
    return Throughput("gpu", sharing, gpu).expected(run).training


def test_a_gpu_takes_time_for_products_and_for_the_bytes_that_it_moves():
    assert _on_gpu(flops=120_000_000) > 1.1 * _on_gpu()
    assert _on_gpu(feedforward_size=4096) > 1.1 * _on_gpu()  # at equal FLOPs
    assert _on_gpu(precision="32-true") > 4 * _on_gpu()
    assert _on_gpu(sharing=2) == pytest.approx(2 * _on_gpu())


def test_heads_that_are_padded_take_the_time_of_those_they_are_padded_to():
    # 64 heads of 5 are computed as 64 of 8; their FLOPs are counted as 5.
    assert _on_gpu(heads=64, head_size=5) > 0.95 * _on_gpu(heads=64, head_size=8)


def test_a_small_batch_takes_as_long_as_the_host_needs_to_launch_it():
    assert _on_gpu(batch_tokens=64) == _on_gpu(batch_tokens=128)
    assert _on_gpu(batch_tokens=64, layers=12) == pytest.approx(2 * _on_gpu(batch_tokens=64))


def test_the_rates_are_those_of_the_gpu_that_is_there():
    assert _on_gpu("NVIDIA H200") < _on_gpu("NVIDIA H100 PCIe") == _on_gpu("a GPU of another kind")
    assert {*GPUS} == {"H100", "H200"}


def test_a_run_of_no_steps_says_nothing_of_training_and_takes_none():
    throughput, run = Throughput("cpu"), _run("lm1b", 5)
    assumed = throughput.expected(run).training
    throughput.learn(_run("lm1b", 3, steps=0), 0.0, 1.3)
    assert not throughput.measured
    assert throughput.expected(_run("lm1b", 3, steps=0)) == pytest.approx((0, 1.3))
    assert throughput.expected(run) == pytest.approx((assumed, 1.3))


def test_the_most_similar_measured_runs_decide():
    throughput, rule = Throughput("cpu"), CPU.training
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
    measured, other_model = _run("lm1b", 3), _run("lm1b", 13)
    seconds = 11.0 * rule(other_model) / rule(measured)
    assert throughput.expected(other_model) == pytest.approx((seconds, 2.0))


def test_only_the_newest_measurements_count():
    throughput = Throughput("cpu")
    for seed in range(3 * NEWEST):
        seconds = 10.0 if seed < 2 * NEWEST else 30.0
        throughput.learn(_run("lm1b", 3, seed=seed), seconds, 1.0)
    assert throughput.expected(_run("lm1b", 3, seed=99)).training == pytest.approx(30.0)


def test_a_part_of_a_training_tells_of_the_whole_until_the_whole_does():
    throughput = Throughput("cpu")
    throughput.learn(_run("lm1b", 3), 0.1, None, share=0.01)
    assert not throughput.measured, "that was too short to tell anything"
    throughput.learn(_run("lm1b", 3), 13.0, None, share=0.25)
    assert throughput.expected(_run("lm1b", 3)).training == pytest.approx(52.0)
    throughput.learn(_run("lm1b", 3), 47.0, 3.0)
    assert throughput.expected(_run("lm1b", 3, seed=1)) == pytest.approx((47.0, 3.0))


CONFIG: dict[str, Any] = {"seed": 3, "task": {"name": "lm1b"}, "model": {"heads": 7}}


def asked(memory: Path) -> int:
    """How many models are built for the size of one config."""
    process = Mock(spec=SizeServer)
    process.ask = Mock(side_effect=lambda asked: [{"size": {"params_total": 17}} for _ in asked])
    facts = Facts(process, memory)
    assert facts.sizes([CONFIG, {**CONFIG, "seed": 5}]) == [{"params_total": 17}] * 2
    facts.save()
    return facts.asked


@pytest.mark.parametrize(("group", "built"), [("attention", 1), ("figures", 0)])
def test_a_size_is_built_once_until_an_outside_model_changes(installed, group, built):
    memory = installed.folder / "facts.json"
    assert [asked(memory), asked(memory)] == [1, 0]
    module = installed("mine", "SIZE = 1", {f"headroom.{group}": "mine = mine"})
    assert [asked(memory), asked(memory)] == [built, 0]
    module.write_text("SIZE = 2")
    installed.forget()
    assert [asked(memory), asked(memory)] == [built, 0]


def test_what_was_changed_in_the_memory_is_not_used(tmp_path):
    memory = tmp_path / "cache" / "facts.json"
    assert [asked(memory), asked(memory)] == [1, 0]
    for damage in ('"params_total":17', '"sha256":"'):
        memory.write_text(memory.read_text().replace(damage, f"{damage}0"))
        assert [asked(memory), asked(memory)] == [1, 0]
    memory.unlink()
    os.mkfifo(memory)
    assert [asked(memory), asked(memory)] == [1, 0]
