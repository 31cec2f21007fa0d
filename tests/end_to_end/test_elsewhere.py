"""Tests of sweeps that one machine plans, and another trains with only the training libraries."""

import shutil
from importlib import metadata

import pytest
from packaging.requirements import Requirement

from tasks.synthetic.samples import LM1B, World
from tests.end_to_end.test_sweep import (
    TINY,
    attempts,
    kill_at_checkpoint,
    numbers,
    python,
)
from tests.faults.commands import tables

pytestmark = pytest.mark.slow

GRID = "-m name=grid-heads model.heads=2,3 model.head_size=4 trainer.steps=60".split()
# Local text has no number of generated sentences.
LOCAL = [word for word in TINY if word != "data.sentences=600"]
STATUS = ("-m", "sweeper", "status", "--outputs")
NEEDED = ("torch", "pytorch-lightning", "numpy", "pydantic")  # `bare` adds tokenizers
FOREIGN = ("hydra", "omegaconf", "rich", "pandas", "matplotlib", "wandb", "datasets")


def with_what_they_need(names):
    """Return the installed distributions with these names, and their requirements."""
    found, wanted = {}, list(names)
    while wanted:
        name = wanted.pop()
        if name.lower() not in found:
            found[name.lower()] = distribution = metadata.distribution(name)
            every = map(Requirement, distribution.requires or [])
            no_extra = {"extra": ""}
            wanted += [
                one.name
                for one in every
                if not one.marker or one.marker.evaluate(no_extra)
            ]
    return found.values()


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """The Python of an environment that has only the libraries for training."""
    folder = tmp_path_factory.mktemp("bare") / "environment"
    python("-m", "venv", "--without-pip", folder)
    [site] = folder.glob("lib/python*/site-packages")
    # Leave out what tokenizers requires, which is only for downloads.
    tokenizers = metadata.distribution("tokenizers")
    for distribution in (*with_what_they_need(NEEDED), tokenizers):
        for top in {file.parts[0] for file in distribution.files} - {
            "..",
            "__pycache__",
        }:
            if not (site / top).exists():
                (site / top).symlink_to(distribution.locate_file(top))
    interpreter = folder / "bin" / "python"
    found = (
        f"import importlib.util as u; print([n for n in {FOREIGN} if u.find_spec(n)])"
    )
    # Elsewhere, Python could take a folder wandb/ for the package.
    listed = python("-c", found, program=interpreter, cwd=folder)
    assert listed.stdout.strip() == "[]"
    return interpreter


@pytest.fixture
def text(tmp_path):
    """A folder of training text that a test may move."""
    folder = tmp_path / "text"
    LM1B.write(folder, 600, World(5, 7))
    return folder


def bring_home(there, home, *typed):
    """Copy the trained runs to the outputs folder `home`. Assert that a sweep trains none again."""
    shutil.copytree(there, home, dirs_exist_ok=True)
    trained = attempts(home)
    python("sweep.py", *typed, *LOCAL, f"paths.outputs={home}")
    assert attempts(home) == trained


def test_runs_killed_twice_on_a_bare_machine_come_back_with_the_bits_of_here(
    bare, text, tmp_path
):
    home, there, here = (tmp_path / name for name in ("home", "there", "here"))
    typed = (*GRID, "data=local", f"data.root={text}")
    python("sweep.py", *typed, *LOCAL, f"paths.outputs={here}")

    tiny = [word for word in LOCAL if word != "logger=none"]
    mirrored = (*tiny, "logger=wandb", "logger.mode=offline")
    plan_only = (f"paths.outputs={home}", "hydra.sweeper.plan_only=true")
    planned = python("sweep.py", *typed, *mirrored, *plan_only)
    assert not any(numbers(home).values())
    [pinned] = (home / "code").iterdir()
    there_typed = (
        f"cd home/code/{pinned.name} && python -m sweeper train --outputs ../.."
    )
    assert f"    ssh HOST '{there_typed}'\n" in planned.stdout

    shutil.copytree(home, there)
    text.rename(tmp_path / "gone")  # the other machine has no text
    train = ("-m", "sweeper", "train", "--outputs", "../..")
    code = there / "code" / pinned.name
    for finished in (0, 1):
        kill_at_checkpoint([bare, *train], there, finished, cwd=code)
    assert not all(numbers(there).values())
    done = python(*train, program=bare, cwd=code)
    assert done.stdout.count("wandb is not installed") == 1
    done = python(*STATUS, "../..", program=bare, cwd=code, code=2)
    assert "This copy of the code only trains runs" in done.stderr

    (tmp_path / "gone").rename(text)
    bring_home(there, home, *typed)
    assert numbers(home) == numbers(here)
    assert tables(home) == tables(here)


def test_a_machine_that_is_lent_for_a_time_trains_what_it_can(bare, text, tmp_path):
    """The script continues although its tests are skipped or fail, since there is no GPU."""
    home, there = tmp_path / "home", tmp_path / "there"
    typed = (*GRID, "data=local", f"data.root={text}")
    plan_only = (f"paths.outputs={home}", "hydra.sweeper.plan_only=true")
    python("sweep.py", *typed, *LOCAL, *plan_only)
    shutil.copytree(home, there)

    def lent(seconds, **options):
        script = ("benchmarks/gpu_machine.py", there, "--seconds", seconds)
        return python(*script, program=bare, timeout=700, **options)

    over = lent(20, code=1)
    assert over.stdout.count("not started, no time left") == 3
    assert not any(numbers(there).values())
    assert "no GPU torch" in lent(600).stdout
    bring_home(there, home, *typed)


def test_a_command_that_needs_more_says_so(bare, tmp_path):
    done = python(*STATUS, tmp_path, program=bare, code=2)
    assert done.stderr.startswith("error: rich is missing in ")
