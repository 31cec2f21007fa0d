"""This machine: as many runs at once as its cores, its GPUs and their memory bear."""

from __future__ import annotations

import os
import random
from pathlib import Path
from unittest.mock import Mock

import pytest

from sweeper.run import placing
from sweeper.run.backend import BackendContext, Job, Resources
from sweeper.run.backends import local
from sweeper.run.gpus import FRACTION
from sweeper.run.placing import FILLED, Share
from sweeper.store.errors import UserError
from tests.policies import launcher

CPU = Resources("cpu", devices=1, nodes=1, threads=1)
GPU = Resources("auto", devices=1, nodes=1, threads=1)
JOB = Job("lm1b-s0-a", 1.0)


def on(needed, together=1, **options):
    given = launcher("local", **options)
    context = BackendContext(given, {needed}, "none", Path("outputs"), None, together)
    backend = local.backend(context)
    backend._process = Mock(fork=Mock(return_value=(1, 1)))
    return backend


@pytest.fixture
def gpus(tmp_path, monkeypatch):
    """A machine whose nvidia-smi tells of GPUs with these MiB, and of these parts of the first."""

    def fake(*sizes, parts=(), mode="Default"):
        listed = [f"GPU {number}: one (UUID: GPU-{number}a)" for number in range(len(sizes))]
        listed[1:1] = [
            f"  MIG {size}     Device  {number}: (UUID: MIG-{number}b)"
            for number, size in enumerate(parts)
        ]
        rows = [f"GPU-{number}a, {size}, {size}, {mode}" for number, size in enumerate(sizes)]
        answers = ("\\n".join(lines) + "\\n" for lines in (listed, rows))
        script = '#!/bin/sh\ncase "$1" in -L) printf "{}";; *) printf "{}";; esac\n'
        (tmp_path / "nvidia-smi").write_text(script.format(*answers))
        (tmp_path / "nvidia-smi").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    return fake


def shown(backend):
    """What each slot's job is told of GPUs when it starts."""
    for slot in range(backend.slots):
        backend.start(Path("run"), slot)
    told = [call.kwargs["environment"] for call in backend._process.fork.call_args_list]
    return [environment["CUDA_VISIBLE_DEVICES"] for environment in told]


def test_a_slot_for_every_core_that_a_run_does_not_share(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(13)))
    assert on(CPU).slots == 13
    assert on(Resources("cpu", devices=3, nodes=1, threads=2)).slots == 2
    assert on(Resources("cpu", devices=7, nodes=1, threads=5)).slots == 1
    assert (on(CPU, slots=3).slots, on(CPU).device) == (3, "cpu")


def test_gpus_are_shared_as_often_as_asked_or_as_memory_lets(gpus):
    gpus(81_920, 40_960, 81_920)  # the smallest decides: 42.9 GB
    assert (on(GPU).slots, on(GPU).device) == (3, "gpu")
    assert on(GPU, jobs_per_device=2).slots == 6
    assert on(GPU, gpu_memory_gb=10).slots == 12
    assert on(GPU, gpu_memory_gb=10, jobs_per_device=3).slots == 9
    # By their UUIDs: CUDA numbers them in another order than nvidia-smi.
    shared = on(GPU, jobs_per_device=2, slots=5)
    assert shown(shared) == ["GPU-0a", "GPU-1a", "GPU-2a", "GPU-0a", "GPU-1a"]
    assert on(CPU).device == "cpu"


def test_runs_that_share_a_gpu_start_apart(gpus, monkeypatch):
    gpus(81_920, 81_920)
    now = 100.0
    monkeypatch.setattr(placing.time, "monotonic", lambda: now)
    shared = on(GPU, jobs_per_device=2, stagger_s=7)
    shared.start(Path("run"), 0)
    assert [shared.grant(JOB, [slot]) for slot in (1, 2, 3)] == [1, None, 3]
    now += 7
    assert shared.grant(JOB, [2]) == 2


def test_a_job_is_granted_the_part_of_a_gpu_that_it_is_predicted_to_take(gpus):
    gpus(81_920, 81_920)
    placed = on(GPU, together=3, stagger_s=0)
    assert (placed.places, placed.slots, placed.sharing) == (True, 6, 3)
    large, small = (
        Job(f"lm1b-s0-{gigabytes}", 1.0, share=Share(gigabytes, 3)) for gigabytes in (60, 20)
    )
    free = set(range(6))
    for job, expected in ((large, 0), (JOB, 1), (small, 2), (small, None)):
        slot = placed.grant(job, sorted(free))
        assert slot == expected, job
        if slot is not None:
            free.remove(slot)
            placed.start(Path("run"), slot)
    given = [call.kwargs["environment"] for call in placed._process.fork.call_args_list]
    assert [one["CUDA_VISIBLE_DEVICES"] for one in given] == ["GPU-0a", "GPU-1a", "GPU-0a"]
    whole = 81_920 * 2**20 / 1e9
    assert [one.get(FRACTION) for one in given] == [f"{60 / whole:.4f}", None, f"{20 / whole:.4f}"]
    assert placed.grant(small, sorted(free | {0, 1})) == 1  # it had been the unknown run's alone


@pytest.mark.parametrize(
    ("needed", "options"),
    [
        (GPU, {"jobs_per_device": 1}),
        (GPU, {"gpu_memory_gb": 80}),
        (Resources("gpu", devices=2, nodes=1, threads=1), {}),
    ],
    ids=["as asked", "as large as said", "several GPUs a run"],
)
def test_nothing_is_shared_by_prediction_where_something_else_decides(gpus, needed, options):
    gpus(81_920, 81_920)
    backend = on(needed, together=3, **options)
    assert not backend.places
    assert backend.slots == 2 // needed.devices


def test_a_gpu_that_takes_one_process_is_not_shared(gpus, monkeypatch):
    for parts, chosen, mode, shared in (
        ((), None, "Exclusive_Process", False),
        ((), "0", "Exclusive_Process", False),
        (("3g.40gb",), None, "Exclusive_Process", False),
        (("3g.40gb",), None, "Default", True),
    ):
        gpus(81_920, parts=parts, mode=mode)
        if chosen is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
        assert on(GPU, together=3).places == shared


@pytest.mark.parametrize("seed", range(5))
def test_whatever_comes_no_gpu_is_overfull_and_every_run_has_its_turn(gpus, seed):
    gpus(40_960, 81_920)
    rng, sizes = random.Random(seed), {"GPU-0a": 42.9, "GPU-1a": 85.9}
    backend = on(GPU, together=3, stagger_s=0)
    shares = [Share(rng.uniform(1, 40), rng.choice((2, 3))) for _ in range(40)]
    waiting = [
        Job(f"lm1b-s0-{number}", 1.0, share=rng.choice((share, share, None)))
        for number, share in enumerate(shares)
    ]
    running, together = {}, 0
    while waiting or running:
        free = [slot for slot in range(backend.slots) if slot not in running]
        while waiting and free and (slot := backend.grant(waiting[0], free)) is not None:
            running[slot] = waiting.pop(0)
            free.remove(slot)
        for gpu, size in sizes.items():
            here = [job.share for slot, job in running.items() if backend._places.gpus[slot] == gpu]
            if len(here) > 1:
                assert None not in here
                assert sum(share.gigabytes for share in here) <= FILLED * size
                assert len(here) <= min(share.together for share in here)
            together = max(together, len(here))
        del running[rng.choice(list(running))]  # fails if a run waits for an empty machine
    assert together > 1


def test_runs_on_cores_start_at_once(monkeypatch):
    cores = on(CPU, slots=2, stagger_s=7)
    cores.start(Path("run"), 0)
    assert cores.grant(JOB, [1]) == 1


def test_a_run_on_several_gpus_has_them_to_itself(gpus):
    gpus(*[81_920] * 5)
    two = on(Resources("gpu", devices=2, nodes=1, threads=1))
    assert shown(two) == ["GPU-0a,GPU-1a", "GPU-2a,GPU-3a"]


@pytest.mark.parametrize("demand", [CPU, GPU], ids=["cpu", "none found"])
def test_a_run_that_is_granted_no_gpu_sees_none(demand, monkeypatch):
    """Else every job of a machine without nvidia-smi takes its first GPU."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert shown(on(demand, slots=2)) == ["", ""]


def test_the_parts_of_a_gpu_are_a_slot_each(gpus):
    gpus(81_920, 40_960, parts=("3g.40gb", "1g.10gb+me"))
    assert shown(on(GPU)) == ["MIG-0b", "MIG-1b", "GPU-1a"]
    assert on(GPU, gpu_memory_gb=10).slots == 3
    with pytest.raises(UserError, match="at most 10, what the smallest GPU here has"):
        on(GPU, gpu_memory_gb=11)
    with pytest.raises(UserError, match="at most 1, as many whole GPUs"):
        on(Resources("gpu", devices=2, nodes=1, threads=1))


def test_only_the_gpus_that_a_sweep_was_given_are_used(gpus, monkeypatch):
    gpus(81_920, 40_960, 20_480)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-1")  # as much of a UUID as tells it apart
    assert shown(on(GPU)) == ["GPU-1a"]
    assert on(GPU, gpu_memory_gb=40).slots == 1
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2, 0")
    assert shown(on(GPU)) == ["2", "0"]
    assert on(GPU, gpu_memory_gb=20).slots == 2
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert on(GPU).device == "cpu"


@pytest.mark.parametrize("told", ["[N/A]", "", "no nvidia-smi"])
def test_memory_that_nothing_tells_is_not_counted_on(told, gpus, monkeypatch):
    gpus(told)
    if told == "no nvidia-smi":
        monkeypatch.setenv("PATH", "")
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert on(GPU, jobs_per_device=2).slots == 2
    with pytest.raises(
        UserError, match=r"gpu_memory_gb=20: expected null, since nvidia-smi does not"
    ):
        on(GPU, gpu_memory_gb=20)


@pytest.mark.parametrize(
    ("needed", "options", "words"),
    [
        (GPU, {"slots": 3}, "hydra.launcher.slots=3: expected at most 2, as many runs as the GPUs"),
        (GPU, {"gpu_memory_gb": 43}, "at most 43, what the smallest GPU here has"),
        (Resources("gpu", 3, 1, 1), {}, "trainer.devices=3: expected at most 2"),
        (Resources("cpu", 1, 2, 1), {}, "trainer.num_nodes=2: expected 1"),
    ],
)
def test_what_cannot_be_is_one_sentence(gpus, needed, options, words):
    gpus(40_960, 40_960)
    with pytest.raises(UserError, match=words.replace(".", r"\.")):
        on(needed, **options)
