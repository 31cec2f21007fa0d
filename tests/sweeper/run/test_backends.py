"""Tests of all backends, and of the local backend's slots on cores and GPUs."""

import os
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest
from omegaconf import OmegaConf

from sweeper.run.backend import BackendContext, Job, Resources
from sweeper.run.backends import local
from sweeper.run.backends.ray import RayBackend
from sweeper.run.options import SweepOptions
from tests.policies import launcher, shipped
from tests.refusals import refusal

needed = partial(Resources, devices=1, nodes=1, threads=1)
CPU, GPU, ASKED = map(needed, ("cpu", "auto", "gpu"))
TWO, THREE = needed("gpu", devices=2), needed("gpu", devices=3)


def context(options, one):
    """Return the context of a backend for runs that need the resources `one`."""
    return BackendContext(options, {one}, "none", Path("outputs"), None)


def test_ray_is_asked_for_parts_of_a_gpu_or_for_whole_ones():
    half = launcher("ray", gpus_per_device=0.5)
    assert half.request(GPU, gpus=True) == {"num_cpus": 1, "num_gpus": 0.5}
    assert half.request(CPU, gpus=True)["num_gpus"] == 0
    told = refusal(half.request, THREE, gpus=True)
    assert "gpus_per_device=0.5: expected a whole number" in told


@pytest.mark.parametrize(
    ("nodes", "device"),
    [
        ([{"CPU": 3}, {"CPU": 2}], "cpu"),  # two runs of 2 CPUs
        ([{"CPU": 8, "GPU": 4}, {"CPU": 2}], "gpu"),  # two runs of 2 CPUs and 2 GPUs
    ],
)
def test_auto_is_what_the_ray_cluster_has(nodes, device):
    ray = Mock(nodes=lambda: [{"Alive": True, "Resources": own} for own in nodes])
    made = RayBackend(ray, context(launcher("ray"), needed("auto", devices=2)))
    assert (made.slots, made.device) == (2, device)


JOB = Job("lm1b-s0-a", 1.0)


def on(one, **options):
    backend = local.backend(context(launcher("local", **options), one))
    backend.process = Mock(fork=Mock(return_value=(1, 1)))
    return backend


@pytest.fixture
def gpus(program, monkeypatch):
    """Return a function that fakes nvidia-smi with GPUs. The first one may have MIG instances."""

    def fake(count, parts=()):
        first, *others = (f"GPU {n}: one (UUID: GPU-{n}a)" for n in range(count))
        mig = [
            f"  MIG {size}  Device  {n}: (UUID: MIG-{n}b)"
            for n, size in enumerate(parts)
        ]
        program("nvidia-smi", "\n".join([first, *mig, *others]))
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    return fake


def shown(backend):
    """Start a job in each slot, and return their values of CUDA_VISIBLE_DEVICES."""
    for slot in range(backend.slots):
        backend.start(Path("run"), slot)
    given = [call.kwargs["environment"] for call in backend.process.fork.call_args_list]
    return [environment["CUDA_VISIBLE_DEVICES"] for environment in given]


def test_a_slot_for_every_core_that_a_run_does_not_share(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(13)))
    assert on(CPU).slots == 13
    assert on(needed("cpu", devices=3, threads=2)).slots == 2
    assert on(needed("cpu", devices=7, threads=5)).slots == 1
    assert on(CPU, slots=3).slots == 3
    cores = on(CPU, slots=2, stagger_s=7)
    cores.start(Path("run"), 0)
    assert cores.grant(JOB, [1]) == 1, "cores are not shared, so runs start at once"


def test_gpus_are_shared_by_as_many_runs_as_asked(gpus):
    gpus(3)
    assert (on(GPU).slots, on(GPU).device) == (3, "gpu")
    assert on(GPU, jobs_per_device=2).slots == 6
    shared = on(GPU, jobs_per_device=2, slots=5)
    assert shown(shared) == ["GPU-0a", "GPU-1a", "GPU-2a", "GPU-0a", "GPU-1a"]
    assert on(CPU).device == "cpu"


def test_runs_that_share_a_gpu_start_apart(gpus, monkeypatch):
    gpus(2)
    now = 100.0
    monkeypatch.setattr(local.time, "monotonic", lambda: now)
    shared = on(GPU, jobs_per_device=2, stagger_s=7)
    shared.start(Path("run"), 0)
    assert [shared.grant(JOB, [slot]) for slot in (1, 2, 3)] == [1, None, 3]
    now += 7
    assert shared.grant(JOB, [2]) == 2


def test_a_run_starts_on_the_gpu_that_has_the_fewest(gpus):
    gpus(2)
    shared = on(GPU, jobs_per_device=2, stagger_s=0)
    assert shared.grant(JOB, [0, 1, 3]) == 1  # GPU 0 has the run of slot 2
    assert shared.grant(JOB, [0, 1, 2]) == 0
    assert shared.grant(JOB, []) is None


@pytest.fixture
def no_gpu(monkeypatch):
    """Hide nvidia-smi."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.mark.parametrize("demand", [CPU, GPU])
def test_a_run_that_is_granted_no_gpu_sees_none(demand, no_gpu):
    """Otherwise every job on a machine without nvidia-smi would use the first GPU."""
    assert shown(on(demand, slots=2)) == ["", ""]


def test_an_nvidia_smi_that_may_not_be_executed_counts_as_none(
    no_gpu, monkeypatch, tmp_path
):
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shown(on(CPU, slots=2)) == ["", ""]


def test_without_the_gpu_that_is_asked_for_a_sweep_is_planned_and_not_trained(no_gpu):
    told = refusal(on(ASKED).warm)
    assert "accelerator=gpu: expected a GPU on this machine" in told
    assert "plan with trainer.accelerator=cpu" in told


@pytest.mark.parametrize(
    ("one", "count", "parts", "visible", "slots"),
    [
        # Slots have UUIDs, because CUDA and nvidia-smi number GPUs differently.
        (TWO, 5, (), None, ["GPU-0a,GPU-1a", "GPU-2a,GPU-3a"]),  # several a run
        (
            GPU,
            2,
            ("3g.40gb", "1g.10gb+me"),
            None,
            ["MIG-0b", "MIG-1b", "GPU-1a"],
        ),
        (GPU, 3, (), "GPU-1", ["GPU-1a"]),
        # the start of a UUID identifies it
        (GPU, 3, (), "2, 0", ["2", "0"]),
    ],
)
def test_each_slot_has_gpus_to_itself_of_those_given(
    gpus, monkeypatch, one, count, parts, visible, slots
):
    gpus(count, parts)
    if visible:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert shown(on(one)) == slots


@pytest.mark.parametrize(
    ("one", "options", "words"),
    [
        (
            GPU,
            {"slots": 3},
            "hydra.launcher.slots=3: expected at most 2, the number of runs",
        ),
        (
            CPU,
            {"slots": 5000},
            "slots=5000: expected a number of at least 1 and at most 1000",
        ),
        (THREE, {}, "trainer.devices=3: expected at most 2"),
        (TWO, {}, "trainer.devices=2: expected at most 1 on this machine"),
        (needed("cpu", nodes=2), {}, "trainer.num_nodes=2: expected 1"),
    ],
)
def test_what_cannot_be_is_one_sentence(gpus, one, options, words):
    gpus(2, parts=("3g.40gb",) if one is TWO else ())
    assert words in refusal(on, one, **options)


def test_defaults_of_options_are_those_of_conf():
    """`python -m sweeper train` reads no yaml file, so it uses the defaults of the class."""
    assert local.Options() == launcher("local")
    configured = vars(OmegaConf.to_object(shipped().compose([]).hydra.sweeper))
    assert {**vars(SweepOptions()), "_target_": configured["_target_"]} == configured
