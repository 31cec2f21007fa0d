"""An outputs folder that cannot serve is told in one sentence before anything starts."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from sweeper.store.errors import UserError
from sweeper.store.runs import RunStore

PROBE = """
import sys
from pathlib import Path
from sweeper.store.errors import UserError
from sweeper.store.runs import RunStore
before = sorted(Path(sys.argv[1]).rglob("*"))
try:
    RunStore(Path(sys.argv[1])).check_writable()
except UserError as error:
    print(error)
assert sorted(Path(sys.argv[1]).rglob("*")) == before
"""


def refusal(outputs: Path) -> str:
    with pytest.raises(UserError) as caught:
        RunStore(outputs).check_writable()
    message = str(caught.value)
    assert message.startswith(f"outputs={outputs}: expected ")
    assert message.endswith(" or choose another folder.")
    assert message.isprintable()
    return message


def test_a_good_folder_is_made_and_left_empty(tmp_path):
    outputs = tmp_path / "a" / "b" / "outputs"
    RunStore(outputs).check_writable()
    RunStore(outputs).check_writable()
    assert list(outputs.iterdir()) == []


def test_a_folder_reached_by_a_link_is_good(tmp_path):
    (tmp_path / "scratch").mkdir()
    (tmp_path / "outputs").symlink_to(tmp_path / "scratch")
    RunStore(tmp_path / "outputs").check_writable()


@pytest.mark.parametrize("below", [".", "outputs", "a/b/outputs"])
def test_a_file_in_the_way_is_named(tmp_path, below):
    file = tmp_path / "file"
    file.write_text("untouched")
    message = refusal(file / below)
    assert f"{file} is a file" in message
    assert file.read_text() == "untouched"


@pytest.mark.parametrize(
    ("call", "code", "words"),
    [
        pytest.param("mkdir", errno.EACCES, "you may write to", id="parent_not_permitted"),
        pytest.param("open", errno.EACCES, "you may write to", id="not_permitted"),
        pytest.param("open", errno.EROFS, "read-only", id="read_only"),
        pytest.param("write", errno.ENOSPC, "the disk is full", id="full"),
        pytest.param("fsync", errno.EDQUOT, "quota", id="quota"),
        pytest.param("link", errno.EPERM, "hard-link", id="no_hard_links"),
        pytest.param("rename", errno.EIO, "Input/output error", id="broken_disk"),
    ],
)
def test_each_operation_the_store_needs_is_tried(tmp_path, monkeypatch, call, code, words):
    def refuse(*arguments, **options):
        raise OSError(code, os.strerror(code), "x")

    outputs = tmp_path / "outputs"
    if call != "mkdir":
        outputs.mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(os, call, refuse)
        assert words in refusal(outputs)
    assert sorted(tmp_path.iterdir()) == ([] if call == "mkdir" else [outputs])
    assert call == "mkdir" or list(outputs.iterdir()) == []


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        pytest.param('mount -o remount,ro "$1"', "read-only", id="read_only"),
        pytest.param('{ cat /dev/zero > "$1/ballast" 2>/dev/null || true; }', "full", id="full"),
        pytest.param('mount -o remount,nr_inodes=1 "$1"', "full", id="no_inodes"),
    ],
)
def test_a_real_file_system_that_refuses_is_told(on_tmpfs, prepare, words):
    output = on_tmpfs(PROBE, prepare)
    assert output.startswith("outputs=")
    assert words in output
    assert output.count("\n") == 1
