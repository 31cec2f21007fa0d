"""The card is compiled once, and a few processes do everything on it that the tests ask about."""

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
def probes(library):
    """What single operators do otherwise than on a GPU, as `tests.card.steps` found."""
    return _on_card(library, "probes", {})


@pytest.fixture(scope="session")
def planned(tmp_path_factory):
    """Plan a command line at gpu scale; returns the config of each run."""

    def configs(*arguments):
        outputs = tmp_path_factory.mktemp("planned")
        settings = ("scale=gpu", "seed=0", f"paths.outputs={outputs}")
        plan = Planner(composer(), FakeProcess(), max_runs=1000).plan(
            [*arguments, *settings]
        )
        return [run.config for run in plan.runs.values()]

    return configs


@pytest.fixture(scope="session")
def steps(library):
    """Do so many training steps of each config; returns what `tests.card.steps` found, by name."""

    def measured(configs, count):
        return _on_card(
            library, "steps", {name: [one, count] for name, one in configs.items()}
        )

    return measured


def _on_card(library, what, request):
    asked, told = (
        library.with_name(f"{what}-{kind}.json") for kind in ("asked", "told")
    )
    asked.write_text(json.dumps(request))
    command = [sys.executable, "-m", "tests.card", library, what, asked, told]
    # Jobs set this for themselves; a test before this one may have set it for all.
    env = {
        key: value
        for key, value in os.environ.items()
        if key != "CUBLAS_WORKSPACE_CONFIG"
    }
    done = subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(told.read_text())
