"""Tests of the number of cores in a container with a CPU quota."""

import os

import pytest

from sweeper.store import cores as cores_module
from sweeper.store.cores import cores


@pytest.mark.parametrize(
    ("own_groups", "files", "expected"),
    [
        # Version 2.
        (
            "0::/job\n",
            {"job/cpu.max": "300000 100000", "cpu.max": "max 100000"},
            3,
        ),
        # Of a parent.
        (
            "0::/job\n",
            {"job/cpu.max": "max 100000", "cpu.max": "200000 100000"},
            2,
        ),
        ("0::/\n", {"cpu.max": "50000 100000"}, 1),  # half a core
        # Version 1.
        (
            "4:cpu,cpuacct:/docker/7\n3:memory:/docker/7\n0::/\n",
            {"cpu/cpu.cfs_quota_us": "250000", "cpu/cpu.cfs_period_us": "100000"},
            2,
        ),
        # No quota.
        ("4:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1"}, 7),
        ("", {}, 7),
    ],
)
def test_the_quota_of_a_container_limits_the_cores(
    own_groups, files, expected, tmp_path, monkeypatch
):
    groups, own = tmp_path / "groups", tmp_path / "own"
    own.write_text(own_groups)
    for name, text in files.items():
        (groups / name).parent.mkdir(parents=True, exist_ok=True)
        (groups / name).write_text(f"{text}\n")
    monkeypatch.setattr(cores_module, "_OWN_GROUPS", own)
    monkeypatch.setattr(cores_module, "_GROUPS", groups)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(7)))

    assert cores() == expected
