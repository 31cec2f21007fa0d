"""Tests that the commands of README.md and the cells of the notebook work in a copy of the code."""

import json
import os
import re
import shutil
import sys

import pytest
import torch

import headroom_attention as headroom
from tests.end_to_end.test_installed import NOT_SHIPPED
from tests.end_to_end.test_sweep import ROOT, completed, python

pytestmark = pytest.mark.slow

BLOCKS = re.findall(
    r"^```\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.M | re.S
)
LINES = re.findall(r"^(?:make|python) .*", "".join(BLOCKS), re.M)
# Environment variables with which a command takes less time.
SHORTER = {
    "make demo": {"MAKEFLAGS": "e", "DEMO": "theorem1,fig1,fig2 seed=0"},
    "make paper": {"SCALE": "demo hydra.sweeper.dry_run=true"},
    "make test": {"PYTEST_ADDOPTS": "tests/sweeper/store/test_identity.py"},
}
# Changes in conf/ so that rounds take less time: fig1 gets three or four seeds.
FEWER = {
    "hydra/sweeper/headroom.yaml": ("max_seeds: 30", "max_seeds: 4"),
    "experiment/fig1.yaml": ("seeds: [0, 1, 2, 3, 4, 5]", "seeds: [0, 1, 2]"),
}
# Appended to the notebook: print the run and the attention maps of its first row.
SHOWN = """
import json
print(json.dumps([run.id, [panel.images[0].get_array().tolist() for panel in maps.axes]]))
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of the checkout in which every command of README.md was run.

    The runs have a tenth of the steps, and rounds have few seeds, since it would otherwise take ten
    minutes.
    """
    folder = tmp_path_factory.mktemp("readme")
    checkout, venv = folder / "headroom", folder / "venv"
    shutil.copytree(ROOT, checkout, ignore=NOT_SHIPPED)
    for path in (checkout / "conf").glob("**/task/*.yaml"):
        steps = r"(?m)^(  (?:warmup_)?steps: \d+)0\b"
        path.write_text(re.sub(steps, r"\1", path.read_text("utf-8")), "utf-8")
    for name, (many, few) in FEWER.items():
        path = checkout / "conf" / name
        assert many in path.read_text("utf-8")
        path.write_text(path.read_text("utf-8").replace(many, few), "utf-8")
    (venv / "bin").mkdir(parents=True)
    program = venv / "bin" / "python"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    program.chmod(0o755)
    (venv / ".headroom-installed").touch()
    path = f"{venv / 'bin'}{os.pathsep}{os.environ['PATH']}"
    for line in LINES:
        shorter = SHORTER.get(line.partition("  ")[0], {})
        environment = {"PATH": path, "VENV": str(venv), **shorter}
        completed("bash", "-c", line, cwd=checkout, env=environment, timeout=1500)
    return checkout


def test_every_line_of_the_readme_does_what_it_says(checkout):
    commands = {line.split()[1] for line in LINES}
    assert commands == {"demo", "paper", "test", "sweep.py", "-m"}
    outputs = checkout / "outputs"
    figures = {path.stem for path in (outputs / "figures").glob("*.png")}
    assert {"theorem1-bd048884", "fig1-bd048884", "fig1"} <= figures
    assert (outputs / "report.html").is_file()
    own = headroom.runs(
        None, {"model.heads": [4, 8, 16], "model.head_size": 8}, outputs=outputs
    )
    assert {run.state for run in own} == {"done"}
    assert {(run.config["model"]["heads"], run.config["seed"]) for run in own} >= {
        (heads, seed) for heads in (4, 8, 16) for seed in range(3)
    }


def test_every_cell_of_the_notebook_works_on_those_outputs(checkout):
    cells = json.loads((checkout / "examples" / "results.ipynb").read_text("utf-8"))[
        "cells"
    ]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    words = ("-W", "error", "-c", "\n".join([*code, SHOWN]))
    said = python(*words, cwd=checkout / "examples", env={"MPLBACKEND": "agg"})
    id, shown = json.loads(said.stdout.splitlines()[-1])
    weights_BHTT = headroom.run(id, outputs=checkout / "outputs").attention()[0]
    assert torch.allclose(torch.tensor(shown), weights_BHTT[0, :, :24, :24], atol=1e-6)
