"""The quick cases of the fault suite lose nothing."""

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from sweeper.hydra_section import composer
from sweeper.plan.compose import CONF
from sweeper.plan.planner import Planner
from sweeper.size_server import size_server
from sweeper.stages.decide import check_claims
from sweeper.store.registry import ROOT
from tests.faults.commands import LINES


@pytest.mark.slow
def test_every_command_line_of_the_suite_can_be_planned(tmp_path: Path) -> None:
    with closing(size_server()) as process:
        planner = Planner(composer(CONF), process, max_runs=100)
        for line in LINES.values():
            plan = planner.plan([*line[1:], f"paths.outputs={tmp_path}"])
            check_claims(plan)
            assert plan.runs


@pytest.mark.slow
def test_a_short_round_of_faults_loses_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults", "--quick"],
        cwd=ROOT, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    counts = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(counts) >= 4, done.stderr
    assert all(count["injected"] and not count["lost"] for count in counts), counts
