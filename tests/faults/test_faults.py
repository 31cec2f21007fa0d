"""The short version of `make faults`: nothing is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_a_short_round_of_faults_loses_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults", "--quick"],
        cwd=ROOT, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    counts = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(counts) >= 4, done.stderr
    assert [(count["lost"], count["injected"] > 0) for count in counts] == [(0, True)] * len(counts)
