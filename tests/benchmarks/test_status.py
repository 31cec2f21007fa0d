"""The benchmark of `status` runs and counts what it made; how long that took is not looked at."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_run_of_the_store_it_makes_is_told():
    command = [sys.executable, "benchmarks/status.py", "30"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    told = json.loads(done.stdout)
    assert told["runs"] == 30
    assert told["wall_s"] >= told["least_wall_s"] > 0
