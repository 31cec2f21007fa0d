"""A file holds what it held before or what was written, whatever fails in between."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from sweeper.store import files
from sweeper.store.errors import UserError
from sweeper.store.files import (
    make_directory,
    publish,
    read_json,
)

OLD, NEW = "old content", "new content, of another length"
CALLS = ("open", "write", "fsync", "close", "rename", "link", "unlink")


class Injected(OSError):
    """The failure that a test made."""


class Faults:
    """Makes the k-th call to the operating system fail, before or after it did its work."""

    def __init__(self, fail_at: int, after: bool) -> None:
        self.fail_at = fail_at
        self.after = after
        self.calls: list[str] = []

    def wrap(self, name: str, real: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            self.calls.append(name)
            if len(self.calls) != self.fail_at:
                return real(*arguments, **options)
            if name == "close" or (self.after and name not in ("open", "write")):
                real(*arguments, **options)
            if self.after and name == "write":
                real(arguments[0], arguments[1][:3])
            raise Injected(errno.EIO, f"injected into {name}")

        return call

    @contextmanager
    def active(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for name in CALLS:
                patch.setattr(os, name, self.wrap(name, getattr(os, name)))
            yield


def finished(path: Path) -> list[Path]:
    """The files in the folder of `path` that readers look at."""
    return [other for other in path.parent.iterdir() if not other.name.startswith(".")]


@pytest.mark.parametrize("after", [False, True], ids=["not_done", "done_but_reported_failed"])
@pytest.mark.parametrize("replace", [True, False], ids=["replace", "keep_first"])
@pytest.mark.parametrize("existing", [True, False], ids=["over_a_file", "fresh"])
def test_publish_with_a_failure_at_every_call_leaves_old_or_new(tmp_path, after, replace, existing):
    path = tmp_path / "result.json"
    allowed = {OLD if existing else None, NEW if replace or not existing else None} - {None}
    for fail_at in range(1, 100):
        path.unlink(missing_ok=True)
        if existing:
            path.write_text(OLD)
        faults = Faults(fail_at, after)
        published = None
        with faults.active(), suppress(Injected):
            published = publish(path, NEW, replace=replace)
        content = path.read_text() if path.exists() else None
        assert content in allowed or (content is None and not existing)
        assert finished(path) == ([path] if content is not None else [])
        if published is not None:
            assert content == (NEW if published else OLD)
        if len(faults.calls) < fail_at:
            break
    assert fail_at > 6, "every step of publish was made to fail once"
    assert publish(path, OLD, replace=True), "leftovers of failed writers are in nobody's way"


PUBLISH_FOREVER = """
import sys
from pathlib import Path
from sweeper.store.files import publish
print("ready", flush=True)
while True:
    for letter in "ab":
        publish(Path(sys.argv[1]), letter * 100003)
"""


def test_a_killed_writer_leaves_one_whole_content(tmp_path, start):
    path = tmp_path / "run.json"
    for delay in (0.0, 0.003, 0.007, 0.013, 0.029):
        publish(path, "a" * 100003)
        writer = start(PUBLISH_FOREVER, path)
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        time.sleep(delay)
        writer.kill()
        writer.wait()
        assert path.read_text() in ("a" * 100003, "b" * 100003)
        assert finished(path) == [path]


def test_publish_keeps_the_first_where_it_must_not_replace(tmp_path):
    path = tmp_path / "result.json"
    assert publish(path, OLD, replace=False)
    assert not publish(path, NEW, replace=False)
    assert path.read_text() == OLD
    assert list(tmp_path.iterdir()) == [path]


def test_a_lost_answer_to_link_is_not_taken_for_a_rival(tmp_path, monkeypatch):
    real = os.link

    def twice(*arguments):
        real(*arguments)
        real(*arguments)

    monkeypatch.setattr(os, "link", twice)
    assert publish(tmp_path / "result.json", NEW, replace=False)


def test_publish_is_durable_before_it_is_visible(tmp_path):
    faults = Faults(0, after=False)
    with faults.active():
        publish(tmp_path / "x.json", NEW)
    order = faults.calls
    assert order.index("write") < order.index("fsync") < order.index("rename")
    assert "fsync" in order[order.index("rename") :], "the name is made durable too"


def test_publish_without_durability_never_waits_for_the_disk(tmp_path):
    faults = Faults(0, after=False)
    with faults.active():
        publish(tmp_path / "beat.json", NEW, durable=False)
    assert "fsync" not in faults.calls
    assert (tmp_path / "beat.json").read_text() == NEW


def test_published_files_and_folders_are_private(tmp_path):
    make_directory(tmp_path / "a" / "b")
    publish(tmp_path / "a" / "b" / "x.json", NEW)
    assert stat.S_IMODE((tmp_path / "a" / "b" / "x.json").stat().st_mode) == 0o600
    for folder in ("a", "a/b"):
        assert stat.S_IMODE((tmp_path / folder).stat().st_mode) == 0o700


def test_a_link_planted_at_the_final_name_never_leads_a_write_away(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    path = tmp_path / "beat.json"
    path.symlink_to(victim)
    assert not publish(path, NEW, replace=False)
    with pytest.raises(UserError, match=r"beat\.json cannot be read"):
        read_json(path)
    assert publish(path, NEW)
    assert victim.read_text() == "untouched"
    assert path.read_text() == NEW


def test_a_link_planted_at_the_temporary_name_is_refused(tmp_path, monkeypatch):
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    monkeypatch.setattr(files.secrets, "token_hex", lambda count: "predicted")
    (tmp_path / ".beat.json.predicted.tmp").symlink_to(victim)
    with pytest.raises(FileExistsError):
        publish(tmp_path / "beat.json", NEW)
    assert victim.read_text() == "untouched"
