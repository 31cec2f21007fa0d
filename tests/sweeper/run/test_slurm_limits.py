"""What a cluster lets its user queue, from what Slurm's commands tell, faked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sweeper.run.slurm.limits import ENOUGH, Limits, limits
from tests.sweeper.run.fake_slurm import usual

CONFIGURATION = (
    "Configuration data\nMaxArraySize            = 16\nMaxJobCount             = 10000\n"
)
PARTITIONS = (
    "PartitionName=all AllowGroups=ALL Default=YES QoS=N/A State=UP\\n"
    "PartitionName=big AllowGroups=ALL Default=NO QoS=N/A State=UP\\n"
    "PartitionName=short AllowGroups=ALL Default=NO QoS=brief State=UP\\n"
)


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """Slurm's commands, each of which answers with the first text whose words it is given."""

    def fake(name, **answers):
        cases = "".join(f"*'{key}'*) printf '{text}';;\n" for key, text in answers.items())
        (tmp_path / name).write_text(f'#!/bin/sh\ncase "$*" in\n{cases}*) exit 1;;\nesac\n')
        (tmp_path / name).chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return fake


@pytest.mark.parametrize(
    ("options", "jobs"),
    [
        ({}, 20),
        ({"account": "rich"}, 10_000),
        ({"qos": "few"}, 2),
        ({"partition": "big"}, 20),
        ({"partition": "big,short"}, 7),
    ],
)
def test_the_least_of_what_a_cluster_lets_its_user_queue_counts(commands, options, jobs):
    commands("scontrol", config=CONFIGURATION, partition=PARTITIONS)
    commands(
        "sacctmgr",
        **{
            "show user": "lab|lab||20|night\\nrich|lab|||night\\nlab|lab|other|3|\\n",
            "name=night,brief": "||\\n||7\\n",
            "name=night": "||\\n",
            "name=few": "2|5|\\n",
        },
    )
    assert limits(replace(usual(), **options)) == Limits(16, jobs)


def test_where_nothing_is_told_nothing_is_limited(commands):
    commands("scontrol")
    commands("sacctmgr")
    assert limits(usual()) == Limits(ENOUGH, ENOUGH)
