"""The card is compiled once, and one process takes every step on it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from sweeper.hydra_section import composer
from sweeper.plan.planner import Planner
from tests.sweeper.plan.conftest import FakeProcess

ROOT = Path(__file__).resolve().parents[2]
TORCH = Path(torch.__file__).parent


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """The hooks of a CUDA device for the torch that is installed."""
    if torch.version.cuda or torch.version.hip:
        pytest.skip("needs a CPU build of torch: this one has hooks of its own")
    if not shutil.which("g++"):
        pytest.skip("needs g++")
    made = tmp_path_factory.mktemp("card") / "libcard.so"
    includes = [
        f"-I{TORCH / 'include'}",
        f"-I{TORCH / 'include/torch/csrc/api/include'}",
    ]
    linked = [
        f"-L{TORCH / 'lib'}",
        f"-Wl,-rpath,{TORCH / 'lib'}",
        "-lc10",
        "-ltorch_cpu",
    ]
    # -w: torch's own headers warn.
    command = ["g++", "-O1", "-w", "-shared", "-fPIC", "-std=c++20", *includes]
    subprocess.run(
        [*command, str(ROOT / "tests/card/shim.cpp"), "-o", made, *linked], check=True
    )
    return made


@pytest.fixture(scope="session")
def planned(tmp_path_factory):
    """Plan a command line at gpu scale; returns the config of each run."""

    def configs(*arguments):
        outputs = tmp_path_factory.mktemp("planned")
        settings = ("scale=gpu", "seed=0", f"paths.outputs={outputs}")
        planner = Planner(composer(), FakeProcess(), max_runs=1000)
        plan = planner.plan([*arguments, *settings])
        return [run.config for run in plan.runs.values()]

    return configs


@pytest.fixture(scope="session")
def steps(library):
    """Take a training step of each config; returns what `tests.card.steps` found, by name."""

    def measured(configs):
        asked, told = (library.with_name(f"{kind}.json") for kind in ("asked", "told"))
        asked.write_text(json.dumps(configs))
        command = [sys.executable, "-m", "tests.card", library, asked, told]
        # Jobs set this for themselves; a test before this one may have set it for all.
        env = dict(os.environ)
        env.pop("CUBLAS_WORKSPACE_CONFIG", None)
        done = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(told.read_text())

    return measured
