"""What a pack takes along: what is not done, with what that starts from, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile

import pytest

from sweeper.carry.pack import unfinished, write_pack
from sweeper.store.errors import UserError
from sweeper.store.runs import RunStore
from tests.sweeper.carry.test_merge import finish, freeze, interrupt


class FakeProcess:
    """Answers like tasks.size_server."""

    def ask(self, questions):
        known = {"data": {"prepared": "text-7"}}
        return [known[question["op"]] for question in questions]


@pytest.fixture
def family(tmp_path):
    """A parent, two children of it and a stranger to them; the plan of their experiment."""
    (tmp_path / "data" / "text-7").mkdir(parents=True)
    (tmp_path / "data" / "text-7" / "rows.uint16").write_bytes(b"rows")
    (tmp_path / "data" / "text-9").mkdir()
    (tmp_path / "data" / "text-9" / "rows.uint16").write_bytes(b"of another experiment")
    runs = [freeze(tmp_path, seed) for seed in (2, 3, 5, 7)]
    parent, first, second, stranger = (run.id for run in runs)
    size = {"tokens": 11, "flops_per_token": 13}
    parents = {parent: None, first: parent, second: parent, stranger: None}
    plan = {
        "points": [
            *({"experiment": "fig2", "run": run} for run in (first, second)),
            {"experiment": "fig1", "run": stranger},
        ],
        "runs": {run: {"size": size, "parent": parent} for run, parent in parents.items()},
    }
    return runs, plan


def packed(tmp_path, runs):
    about = {"experiments": ["fig2"], "options": {}}
    store = RunStore(tmp_path)
    [path] = write_pack(
        tmp_path / "sweep.tar", store, runs, about, FakeProcess(), wheels=None, max_mb=None
    )
    with tarfile.open(path) as archive:
        names = [name.removeprefix("sweep/") for name in archive.getnames()]
        manifest = json.load(archive.extractfile("sweep/manifest.json"))
    return names, manifest


def test_a_parent_goes_along_before_its_children_and_other_experiments_stay(family, tmp_path):
    (parent, first, second, stranger), plan = family
    runs = unfinished(tmp_path, {"fig2": plan})
    assert set(runs) == {parent.id, first.id, second.id}
    assert (runs[first.id]["parent"], runs[first.id]["cost"]) == (parent.id, 11 * 13)
    names, manifest = packed(tmp_path, runs)
    assert manifest["runs"] == runs
    assert not [name for name in names if stranger.id in name or "text-9" in name]
    assert "outputs/data/text-7/rows.uint16" in names
    assert not [name for name in names if "hydra" in name or "results/" in name or "plan/" in name]


def test_a_package_of_other_people_goes_along_as_if_installed_there(family, tmp_path, installed):
    installed("mine", "class Mine: ...", {"headroom.attention": "wide = mine"})
    (parent, *_), plan = family
    runs = {parent.id: unfinished(tmp_path, {"fig2": plan})[parent.id]}
    names, _ = packed(tmp_path, runs)
    assert {name for name in names if "mine" in name} == {
        "code/mine/__init__.py",
        "code/mine-1.2.3.dist-info/METADATA",
        "code/mine-1.2.3.dist-info/entry_points.txt",
    }


@pytest.mark.parametrize("along", [False, True], ids=["", "with wheels"])
def test_where_libraries_are_missing_it_says_which_and_how_they_would_be_there(
    family, tmp_path, along
):
    _, plan = family
    packed(tmp_path, unfinished(tmp_path, {"fig2": plan}))
    subprocess.run(["tar", "xf", "sweep.tar"], cwd=tmp_path, check=True)
    there = tmp_path / "sweep"
    if along:
        (there / "wheels").mkdir()
        (there / "wheels" / "torch-1-py3-none-any.whl").touch()
    command = [sys.executable, "-S", "run.py"]  # without what is installed
    told = subprocess.run(command, cwd=there, capture_output=True, text=True, check=False)
    [sentence] = told.stderr.splitlines()
    assert told.returncode == 1
    assert sentence.startswith("error: torch, numpy, pydantic, pytorch-lightning cannot")
    expected = "--no-deps wheels/*.whl" if along else " torch=="
    assert f"{sys.executable} -m pip install" in sentence
    assert expected in sentence
    assert "+cpu" not in sentence
    assert "--wheels DIR" in (there / "README.md").read_text()


def test_of_what_is_done_only_what_children_start_from_goes_along(family, tmp_path):
    (parent, first, second, _), plan = family
    finish(parent)
    finish(first)
    interrupt(second)
    runs = unfinished(tmp_path, {"fig2": plan})
    assert set(runs) == {second.id}
    names, _ = packed(tmp_path, runs)
    for run, kept in ((parent, "weights.ckpt"), (second, "step-00000003.ckpt")):
        assert f"outputs/runs/{run.id}/attempts/0001/checkpoints/{kept}" in names
    assert not [name for name in names if first.id in name]


def test_nothing_is_packed_that_is_trained_here_now_or_done(family, tmp_path):
    (parent, first, second, _), plan = family
    first.claim({})
    with pytest.raises(UserError, match=first.id):
        unfinished(tmp_path, {"fig2": plan})
    for run in (parent, first, second):
        finish(run)
    with pytest.raises(UserError, match="nothing to carry"):
        unfinished(tmp_path, {"fig2": plan})
