"""Tests of expected durations, and of the cache of model sizes."""

import os
from unittest.mock import Mock

import pytest

from sweeper.plan.facts import Facts
from sweeper.plan.throughput import Throughput
from sweeper.size_server import SizeServer
from sweeper.store.records import Record


def _run(task, heads, seed=0, steps=2310):
    config = {
        "seed": seed,
        "task": {"name": task},
        "model": {"heads": heads, "layers": 3},
        "trainer": {"precision": "32-true", "steps": steps},
    }
    size = {"tokens": 5 * steps, "flops_per_token": 7 * heads}
    return Record(f"{task}-{heads}-{seed}", config, size)


def test_the_most_similar_measured_runs_decide():
    throughput = Throughput()
    throughput.learn(_run("lm1b", 3, seed=1), 11.0, 2.0)
    # This run trains twice as many steps at the same speed.
    throughput.learn(_run("lm1b", 3, seed=2, steps=2 * 2310), 22.0, 2.0)
    throughput.learn(_run("lm1b", 5), 33.0, 3.0)
    throughput.learn(_run("mnli", 3), 77.0, 5.0)
    for run, expected in (
        (_run("lm1b", 3, seed=4), (11.0, 2.0)),
        (_run("lm1b", 5, seed=4, steps=231), (3.3, 3.0)),
        (_run("lm1b", 13), (11.0 * 13 / 3, 2.0)),
    ):
        assert throughput.expected(run) == pytest.approx(expected)


def test_the_speed_of_a_tiny_task_says_nothing_about_a_large_one():
    throughput = Throughput()
    throughput.learn(_run("representation", 3, steps=10), 5.0, 1.0)
    assert throughput.expected(_run("lm1b", 3, steps=1000)).training == 0.0
    throughput.learn(_run("mnli", 3, steps=100), 5.0, 1.0)
    known = throughput.expected(_run("lm1b", 3, steps=1000)).training
    assert known == pytest.approx(50.0)


def test_a_part_of_a_training_tells_of_the_whole_until_the_whole_does():
    throughput = Throughput()
    throughput.learn(_run("lm1b", 3), 0.1, None, share=0.01)
    assert not throughput.knows(_run("lm1b", 3)), "that was too short to tell anything"
    throughput.learn(_run("lm1b", 3), 13.0, None, share=0.25)
    assert throughput.expected(_run("lm1b", 3)).training == pytest.approx(52.0)
    throughput.learn(_run("lm1b", 3), 47.0, 3.0)
    assert throughput.expected(_run("lm1b", 3, seed=1)) == pytest.approx((47.0, 3.0))


CONFIG = {"seed": 3, "task": {"name": "lm1b"}, "model": {"heads": 7}}


def asked(memory):
    """Return how many models the size server builds for one config with two seeds."""
    built = [{"size": {"params_total": 17}}]
    process = Mock(spec=SizeServer, ask=lambda questions: built * len(questions))
    facts = Facts(process, memory)
    assert facts.sizes([CONFIG, {**CONFIG, "seed": 5}]) == [{"params_total": 17}] * 2
    facts.save()
    return facts.asked


def asked_twice(memory):
    return [asked(memory), asked(memory)]


@pytest.mark.parametrize(("group", "built"), [("attention", 1), ("figures", 0)])
def test_a_size_is_built_once_until_an_outside_model_changes(installed, group, built):
    memory = installed.folder / "facts.json"
    assert asked_twice(memory) == [1, 0]
    module = installed("mine", "SIZE = 1", {f"headroom.{group}": "mine = mine"})
    assert asked_twice(memory) == [built, 0]
    module.write_text("SIZE = 2")
    installed.forget()
    assert asked_twice(memory) == [built, 0]


def test_what_was_changed_in_the_memory_is_not_used(tmp_path):
    memory = tmp_path / "cache" / "facts.json"
    assert asked_twice(memory) == [1, 0]
    for damage in ('"params_total":17', '"sha256":"'):
        memory.write_text(memory.read_text().replace(damage, f"{damage}0"))
        assert asked_twice(memory) == [1, 0]
    memory.unlink()
    os.mkfifo(memory)
    assert asked_twice(memory) == [1, 0]
