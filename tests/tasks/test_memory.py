"""What a step is said to take of a GPU: by the sizes of what lives, whatever the machine."""

from __future__ import annotations

import pytest
import torch

from models.measure import parameter_counts
from tasks.memory import CONTEXT, FRAGMENTED, Live, memory, parts_that_fit
from tasks.parse import parse
from tasks.prepare import task_of
from tasks.training import machine
from tasks.training.module import TrainingModule
from tests.tasks.jobs import config

ROWS = 16
LARGE = {
    "task.sequence_length": 64,
    "task.batch_tokens": 64 * ROWS,
    "model.embedding_size": 48,
    "model.layers": 2,
}


def taken(**changes):
    return memory(config({**LARGE, **changes}))


def test_live_is_what_is_not_given_back():
    with Live() as live:
        kept = torch.empty(1024, device="meta")
        torch.empty(4096, device="meta").add(1)
        view = kept.view(32, 32)
        assert (live.used, live.peak) == (4096, 4096 + 2 * 4 * 4096)
        del kept
        assert live.used == 4096
        del view
        assert live.used == 0


def test_parameters_and_two_moments_are_resident():
    run = parse(config(LARGE))
    with torch.device("meta"):
        total = parameter_counts(task_of(run).build())["params_total"]
    assert taken()["resident"] == 3 * 4 * total


def test_a_step_takes_in_proportion_to_its_rows_beside_what_is_resident():
    takes = {rows: taken(**{"task.batch_tokens": 64 * rows}) for rows in (16, 32, 64)}
    first, second, third = (takes[rows]["training"] for rows in (16, 32, 64))
    assert third - second == pytest.approx(2 * (second - first), rel=0.02)
    assert first > takes[16]["resident"]


def test_layers_each_take_the_same():
    first, second, third = (taken(**{"model.layers": n})["training"] for n in (2, 3, 4))
    assert third - second == pytest.approx(second - first, rel=0.02)
    assert second > first


def test_parts_and_devices_take_less_and_half_precision_too():
    whole = taken()
    for key in ("trainer.micro_batches", "trainer.devices"):
        halved, quartered = (taken(**{key: count})["training"] for count in (2, 4))
        assert quartered < halved < whole["training"]
    assert taken(**{"trainer.micro_batches": 4})["evaluation"] == whole["evaluation"]
    assert taken(**{"trainer.precision": "bf16-mixed"})["training"] < whole["training"]


def test_a_run_is_worked_off_in_as_few_parts_as_the_gpu_needs(monkeypatch):
    automatic = config({**LARGE, "trainer.micro_batches": "auto", "trainer.accelerator": "gpu"})
    found = {n: taken(**{"trainer.micro_batches": n})["training"] for n in (1, 2, 4, ROWS)}
    assert memory(automatic)["training"] == found[1]
    assert parts_that_fit(automatic) == 1  # there is no GPU
    monkeypatch.setattr(machine, "kind_of", lambda accelerator: "cuda")
    for parts, room in ((1, found[1] + 9), (2, found[1] - 9), (4, found[2] - 9), (ROWS, 0)):
        size = CONTEXT + FRAGMENTED * room
        monkeypatch.setattr(machine, "gpu_memory", lambda size=size: size)
        assert parts_that_fit(automatic) == parts


def test_heads_are_filled_up_as_a_gpu_does_and_counts_are_not():
    assert taken(**{"model.head_size": 5})["training"] > taken(**{"model.head_size": 4})["training"]
    padded, whole = (taken(**{"model.head_size": size}) for size in (7, 8))
    assert padded["evaluation"] == pytest.approx(whole["evaluation"], rel=0.02)
    assert padded["resident"] < whole["resident"]


def test_no_attention_logits_are_kept():
    """Four times the positions in rows four times as long: logits would be four times as many."""
    short = taken(**{"model.heads": 16, "model.head_size": 8})
    long = taken(**{"model.heads": 16, "model.head_size": 8, "task.sequence_length": 256})
    assert long["training"] < 1.3 * short["training"]


def test_of_a_cpu_it_is_what_real_tensors_take_there():
    asked = config(LARGE)
    task = task_of(parse(asked))
    model = task.build().train()
    with Live() as live:
        TrainingModule(task, model).training_step(task.training_batches()[0], 1).backward()
    found = memory(asked, accelerator="cpu")
    assert found["training"] - found["resident"] == pytest.approx(live.peak, rel=0.01)
    assert live.peak > found["resident"] > 0
    assert found["training"] != memory(asked)["training"]
