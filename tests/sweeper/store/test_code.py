"""Tests of the parts of the code on which runs depend, and of the copies for queued jobs."""

import subprocess
from importlib.metadata import entry_points

import pytest

from sweeper.store.code import BESIDE, Code, differing, pin
from sweeper.store.registry import ROOT
from tests.refusals import refusal
from tests.tasks.jobs import config

FILES = [
    *"""
models/block.py models/attention/wide.py tasks/train.py tasks/training/loop.py
tasks/size_server/fork.py tasks/lm1b/task.py tasks/squad/task.py tasks/export/folder.py
sweeper/store/runs.py sweeper/run/schedule.py sweeper/results/judge.py docs/install.md
""".split(),
    *BESIDE,
]


@pytest.fixture
def root(tmp_path):
    """A git repository with the folders of Headroom and files without real code."""
    program = tmp_path / "program"
    for name in FILES:
        (program / name).parent.mkdir(parents=True, exist_ok=True)
        (program / name).write_text(f"{name}\n")
    for words in ("init -q", "add .", "commit -qm first"):
        command = f"git -c user.name=one -c user.email=one@example.org {words}"
        subprocess.run(command.split(), cwd=program, check=True)
    return program


@pytest.mark.parametrize(
    ("name", "task", "changed"),
    [
        ("models/block.py", "lm1b", ["models"]),
        ("tasks/lm1b/task.py", "lm1b", ["tasks/lm1b"]),
        ("tasks/lm1b/task.py", "squad", []),
        ("sweeper/results/judge.py", "lm1b", []),
    ],
)
def test_what_changed_is_told_by_parts_where_it_matters_to_a_task(
    root, name, task, changed
):
    before = Code.read(root).parts(task)
    (root / name).write_text("edited\n")
    assert differing([before, Code.read(root).parts(task)]) == changed


def test_a_package_of_other_people_is_a_part(root):
    code = Code.read(root)
    states = [
        code.parts("lm1b", [{"package": "mine", "sha256": digest}]) for digest in "ab"
    ]
    assert differing(states) == ["package mine"]


def test_two_dirty_trees_are_told_apart_and_what_trains_alone_makes_one_dirty(root):
    commit = Code.read(root).revision
    assert len(commit) == 12
    (root / "sweeper/results/judge.py").write_text("edited\n")
    assert Code.read(root).revision == commit
    (root / "models" / "new.py").write_text("one\n")  # a file that git does not track
    one = Code.read(root)
    assert one.revision.startswith(f"{commit}-dirty-")
    (root / "models" / "new.py").write_text("other\n")
    assert Code.read(root).revision not in (commit, one.revision)
    assert one.revision == one.revision  # cached, so that it belongs to the files read


@pytest.fixture
def pinned(root, tmp_path):
    """Return a function that pins the code as it is now, and returns the folder of the copy."""
    return lambda outputs=tmp_path: pin(outputs, Code.read(root), [])


def test_what_is_pinned_stays_and_is_shared_by_all_that_have_the_same_code(
    root, pinned, tmp_path
):
    code = Code.read(root)
    folder = pin(tmp_path, code, [])
    unpinned = {"docs/install.md", "sweeper/results/judge.py"}
    files = (path for path in folder.rglob("*") if path.is_file())
    names = {path.relative_to(folder).as_posix() for path in files}
    assert names == {*FILES} - unpinned | {"REVISION"}
    assert (folder / "REVISION").read_text() == code.revision
    assert {path.stat().st_mode & 0o777 for path in folder.rglob("*")} == {0o600, 0o700}
    block = folder / "models" / "block.py"
    inode = block.stat().st_ino
    (root / "sweeper/results/judge.py").write_text("edited\n")
    assert pinned() == folder
    assert block.stat().st_ino == inode
    (root / "models/block.py").write_text("edited\n")
    assert pin(tmp_path, code, []) == folder  # later edits do not change the copy
    other = pinned()
    assert other != folder
    assert (
        (other / "models" / "block.py").read_text() == "edited\n" != block.read_text()
    )
    assert len(list((tmp_path / "code").iterdir())) == 2


def test_what_was_pinned_and_changed_since_is_not_run(root, pinned, tmp_path):
    folder = pinned()
    own, copy = root / "models/block.py", folder / "models/block.py"
    for spoil in (copy.unlink, lambda: copy.symlink_to(own)):
        spoil()
        told = "models/block.py was changed after the code"
        assert told in refusal(pinned)
    assert own.read_text() == "models/block.py\n"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "code").symlink_to(tmp_path)
    assert "symbolic link" in refusal(pinned, tmp_path / "other")


def test_code_that_somebody_planted_beside_the_pinned_code_is_never_run(root, pinned):
    folder = pinned()
    planted = ["models/__pycache__/block.cpython-311.pyc", "models/planted.pyc"]
    for name in planted:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"bytecode")
    (folder / "core").write_bytes(b"of a crash")
    assert pinned() == folder
    assert not any((folder / name).exists() for name in planted)
    for name in ("torch.py", "models/planted.so", "numpy"):
        (folder / name).symlink_to(root / "models")
        told = f"{name} is not part of the code"
        assert told in refusal(pinned)
        (folder / name).unlink()


def test_a_package_that_a_run_names_is_pinned_with_it(tmp_path, installed, monkeypatch):
    installed("of_mine", "class Mine: ...", {"headroom.attention": "wide = of_mine"})
    code = Code(ROOT, {"models/block.py": b""})
    own = pin(tmp_path, code, [config()])
    beside = pin(tmp_path, code, [config({"model.attention.name": "wide"})])
    assert not (own / "of_mine").exists()
    assert (beside / "of_mine" / "__init__.py").read_text() == "class Mine: ..."
    assert (beside / "of_mine-1.2.3.dist-info" / "entry_points.txt").exists()
    # The path of a job has both the copy and the installed package.
    monkeypatch.syspath_prepend(beside)
    assert len(entry_points(group="headroom.attention", name="wide")) == 1
