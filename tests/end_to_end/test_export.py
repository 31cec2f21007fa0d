"""A sweep packed here, trained where only what the pack's README names is installed, and merged."""

import re
import shutil
import subprocess
import sys
import zipfile
from importlib import metadata

import pytest
from packaging.requirements import Requirement

from sweeper.export.pack import LACKED
from tests.end_to_end.test_sweep import TINY, kill_at_checkpoint, numbers, python, rows, sweep

pytestmark = pytest.mark.slow

GRID = [*TINY, "name=grid-heads", "model.heads=2,3", "model.head_size=4", "trainer.steps=60"]
# Never twice the same; and `reason` says in which attempt.
MEASURED = ("seconds", "tokens_per_second", "reason")


def sweeper(*words):
    return python("-m", "sweeper", *words)


def with_what_they_need(names):
    """The distributions of these names and what they require, all of which are installed here."""
    found, wanted = {}, list(names)
    while wanted:
        name = wanted.pop()
        if name.lower() not in found:
            found[name.lower()] = distribution = metadata.distribution(name)
            for requirement in map(Requirement, distribution.requires or []):
                if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                    wanted.append(requirement.name)
    return list(found.values())


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """An outputs folder whose runs were planned and packed, beside the unpacked pack."""
    outputs = tmp_path_factory.mktemp("exported") / "home"
    wheels = outputs.parent / "wheels"
    wheels.mkdir()
    for distribution in with_what_they_need([LACKED]):
        name = f"{distribution.name.replace('-', '_')}-{distribution.version}-py3-none-any.whl"
        with zipfile.ZipFile(wheels / name, "w") as wheel:
            for file in distribution.files:
                if ".." not in file.parts:
                    wheel.write(distribution.locate_file(file), file)
    to = ("--outputs", outputs, "--wheels", wheels, "-o", outputs.parent / "sweep.zip")
    done = sweeper("pack", *GRID, *to)
    assert done.returncode == 0, done.stderr
    assert "2 runs to train" in done.stdout
    subprocess.run(["unzip", "-q", "sweep.zip"], cwd=outputs.parent, check=True)
    return outputs


@pytest.fixture(scope="module")
def fresh(home):
    """The Python of an environment with what the README names, less what its wheels bring."""
    needed = re.search(r"at home\): (.*)\.\n", (home.parent / "sweep" / "README.md").read_text())
    names = {*re.findall(r"([\w-]+) \(", needed[1])}
    assert {"torch", LACKED} < names
    folder = home.parent / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    [site] = folder.glob("lib/python*/site-packages")
    for distribution in with_what_they_need(names - {LACKED}):
        for top in {file.parts[0] for file in distribution.files} - {"..", "__pycache__"}:
            if not (site / top).exists():
                (site / top).symlink_to(distribution.locate_file(top))
    return folder / "bin" / "python"


def foreign(python):
    """What of this project's own libraries is found in an environment."""
    code = "import importlib.util as u; print([n for n in {} if u.find_spec(n)])"
    names = ["hydra", "omegaconf", "wandb", "datasets", "tokenizers", "rich", "matplotlib", LACKED]
    told = subprocess.run([python, "-c", code.format(names)], capture_output=True, text=True)
    return told.stdout.strip()


def table(outputs):
    found = rows(outputs, "grid-heads")
    return [{k: v for k, v in row.items() if k not in MEASURED} for row in found]


def test_a_sweep_killed_twice_elsewhere_comes_home_with_the_bits_of_one_here(home, fresh, tmp_path):
    there = home.parent / "sweep"
    assert foreign(fresh) == "[]"
    for finished in (0, 1):
        kill_at_checkpoint([fresh, "run.py"], there / "outputs", finished, cwd=there)
    assert not all(numbers(there / "outputs").values())
    done = subprocess.run([fresh, "run.py"], cwd=there, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    again = shutil.copytree(home, tmp_path / "home")
    merged = sweeper("merge", there / "results.zip", "--outputs", again)
    assert (merged.returncode, merged.stdout) == (0, "runs from elsewhere: 2 done\n")
    assert sweep(tmp_path / "here", "-m", *GRID[len(TINY) :]).returncode == 0
    assert numbers(again) == numbers(tmp_path / "here")
    assert all(numbers(again).values())
    assert sweeper("collect", "--outputs", again).returncode == 0
    assert table(again) == table(tmp_path / "here")


def test_a_pack_with_a_changed_byte_is_refused_by_the_name_of_the_file(home):
    there = home.parent / "sweep"
    [row] = (there / "outputs" / "data").glob("*/train/rows.uint16")
    for path in (row, there / "code" / "tasks" / "train.py", there / "README.md"):
        whole = path.read_bytes()
        path.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
        told = python("run.py", cwd=there)
        path.write_bytes(whole)
        assert told.returncode == 1
        assert str(path.relative_to(there)) in told.stderr
        assert "Traceback" not in told.stderr


def test_equal_plans_give_equal_packs(home, tmp_path):
    packed = ("--wheels", home.parent / "wheels", "-o", tmp_path / "sweep.zip")
    words = ("grid-heads", "--outputs", home, *packed)
    assert sweeper("pack", *words).returncode == 0
    assert (tmp_path / "sweep.zip").read_bytes() == (home.parent / "sweep.zip").read_bytes()
