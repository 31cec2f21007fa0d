"""Every backend: a file and a yaml that find each other, options that are read or refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.run.backend import Resources
from sweeper.store.errors import UserError
from sweeper.store.registry import BACKENDS, names
from tests.policies import launcher

ROOT = Path(__file__).resolve().parents[3]
CPU = Resources("cpu", devices=1, nodes=1, threads=1)
GPU = Resources("auto", devices=1, nodes=1, threads=1)


def test_each_backend_has_a_file_and_a_yaml():
    found = {path.stem for path in (ROOT / "conf" / "hydra" / "launcher").glob("*.yaml")}
    assert set(names(BACKENDS)) == found
    assert found >= {"local", "slurm", "ray"}


def test_ray_is_asked_for_parts_of_a_gpu_or_for_whole_ones():
    half = launcher("ray", gpus_per_device=0.5)
    assert half.request(GPU) == {"num_cpus": 1, "num_gpus": 0.5}
    assert half.request(CPU)["num_gpus"] == 0
    with pytest.raises(UserError, match=r"gpus_per_device=0\.5: expected a whole number"):
        half.request(Resources("gpu", devices=3, nodes=1, threads=1))
