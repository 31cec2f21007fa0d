"""The card is compiled once, and a few processes do everything on it that the tests ask about."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from sweeper.hydra_section import composer
from sweeper.plan.planner import Planner
from tests.sweeper.plan.conftest import FakeProcess

ROOT = Path(__file__).resolve().parents[2]
TORCH = Path(torch.__file__).parent

Report = dict[str, Any]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The hooks of a CUDA device for the torch that is installed."""
    if torch.version.cuda or torch.version.hip:
        pytest.skip("needs a CPU build of torch: this one has hooks of its own")
    if not shutil.which("g++"):
        pytest.skip("needs g++")
    made = tmp_path_factory.mktemp("card") / "libcard.so"
    includes = [f"-I{TORCH / 'include'}", f"-I{TORCH / 'include/torch/csrc/api/include'}"]
    linked = [f"-L{TORCH / 'lib'}", f"-Wl,-rpath,{TORCH / 'lib'}", "-lc10", "-ltorch_cpu"]
    # -w: torch's own headers warn.
    command = ["g++", "-O1", "-w", "-shared", "-fPIC", "-std=c++20", *includes]
    subprocess.run([*command, str(ROOT / "tests/card/shim.cpp"), "-o", made, *linked], check=True)
    return made


@pytest.fixture(scope="session")
def jobs(library: Path) -> Report:
    """What `tests.card.jobs` found."""
    return _on_card(library, "jobs", {})


@pytest.fixture(scope="session")
def probes(library: Path) -> Report:
    """What `tests.card.probes` found."""
    return _on_card(library, "probes", {})


@pytest.fixture(scope="session")
def planned() -> Any:
    """Plan a command line at gpu scale; returns the config of each run."""

    def configs(*arguments: str) -> list[dict[str, Any]]:
        settings = ("scale=gpu", "seed=0", "paths.outputs=outputs")
        plan = Planner(composer(), FakeProcess(), max_runs=1000).plan([*arguments, *settings])
        return [run.config for run in plan.runs.values()]

    return configs


@pytest.fixture(scope="session")
def steps(library: Path) -> Any:
    """Do so many training steps of each config; returns what `tests.card.steps` found, by name."""

    def measured(configs: dict[str, dict[str, Any]], count: int) -> Report:
        return _on_card(library, "steps", {name: [one, count] for name, one in configs.items()})

    return measured


def _on_card(library: Path, what: str, request: Report) -> Report:
    asked, told = (library.with_name(f"{what}-{kind}.json") for kind in ("asked", "told"))
    asked.write_text(json.dumps(request))
    command = [sys.executable, "-m", "tests.card", library, what, asked, told]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found: Report = json.loads(told.read_text())
    return found
