"""Tests of outputs folders on full, read-only or unsuitable disks."""

import errno
import os

import pytest

from sweeper.store.runs import RunStore, State
from tests.refusals import refusal
from tests.sweeper.conftest import finish
from tests.sweeper.store.conftest import failing


def test_reading_writes_nothing(store, run, tmp_path):
    absent = RunStore(tmp_path / "absent")
    assert absent.ids() == []
    assert absent.run("none").status().state is State.NEW
    finish(run, {"steps": 1000})

    def written():
        return {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}

    before = written()
    for one in map(store.run, store.ids()):
        one.record(), one.history(), one.checkpoints(), one.attempts(), one.status()
    assert written() == before


def unwritable(outputs):
    message = refusal(RunStore(outputs).check_writable)
    assert message.startswith(f"outputs={outputs}: expected ")
    assert message.endswith(" or choose another folder.")
    return message


def test_a_good_folder_is_made_and_left_empty(tmp_path):
    outputs = tmp_path / "a" / "b" / "outputs"
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").symlink_to(tmp_path)
    RunStore(outputs).check_writable()
    RunStore(outputs).check_writable()
    assert list(outputs.iterdir()) == []


@pytest.mark.parametrize("below", [".", "outputs", "a/b/outputs"])
def test_a_file_in_the_way_is_named(tmp_path, below):
    file = tmp_path / "file"
    file.write_text("untouched")
    assert str(file) in unwritable(file / below)
    assert file.read_text() == "untouched"


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("mkdir", errno.EACCES),
        ("open", errno.EROFS),
        ("write", errno.ENOSPC),
        ("fsync", errno.EDQUOT),
        ("link", errno.EPERM),
        ("rename", errno.EIO),
    ],
)
def test_each_operation_the_store_needs_is_tried(tmp_path, call, code):
    outputs = tmp_path / "outputs"
    if call != "mkdir":
        outputs.mkdir()
    with failing(call, code):
        assert os.strerror(code) in unwritable(outputs)
    assert sorted(tmp_path.rglob("*")) == ([] if call == "mkdir" else [outputs])
