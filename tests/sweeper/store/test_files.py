"""A file has either its old or its new content, and unsafe names are refused."""

import errno
import os
import time
from contextlib import contextmanager, suppress

import pytest

from sweeper.store.files import (
    child,
    make_directory,
    publish,
    publish_json,
    read_json,
)
from tests.refusals import refusal

OLD, NEW = "old content", "new content, of another length"
CALLS = "open write fsync close rename link unlink".split()


class Injected(OSError):
    """The error that a test injects."""


@contextmanager
def failing_at(number, *, after=False):
    """Make one call to the operating system fail, by its number. Yield the list of all calls.

    If `after` is True, the call has its effect before it fails. If `number` is 0, no call fails.
    """
    calls = []

    def wrapped(name, real):
        def call(*arguments, **options):
            calls.append(name)
            if len(calls) != number:
                return real(*arguments, **options)
            if name == "close" or (after and name not in ("open", "write")):
                real(*arguments, **options)
            if after and name == "write":
                real(arguments[0], arguments[1][:3])
            raise Injected(errno.EIO, f"injected into {name}")

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, wrapped(name, getattr(os, name)))
        yield calls


def finished(path):
    """Return the files in the folder of `path` that readers do not ignore."""
    return [other for other in path.parent.iterdir() if not other.name.startswith(".")]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("existing", [True, False])
def test_publish_with_a_failure_at_every_call_leaves_old_or_new(
    tmp_path, after, replace, existing
):
    path = tmp_path / "result.json"
    allowed = {OLD if existing else None, NEW if replace or not existing else None}
    for fail_at in range(1, 100):
        path.unlink(missing_ok=True)
        if existing:
            path.write_text(OLD)
        published = None
        with failing_at(fail_at, after=after) as calls, suppress(Injected):
            published = publish(path, NEW, replace=replace)
        content = path.read_text() if path.exists() else None
        assert content in allowed
        assert finished(path) == ([path] if content is not None else [])
        if published is not None:
            assert published == (replace or not existing)
            assert content == (NEW if published else OLD)
        if len(calls) < fail_at:
            break
    assert fail_at > 6, "every step of publish was made to fail once"
    assert publish(path, OLD, replace=True), (
        "leftovers of failed writers are in nobody's way"
    )


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
        assert writer.stdout.readline() == "ready\n"
        time.sleep(delay)
        writer.kill()
        writer.wait()
        assert path.read_text() in ("a" * 100003, "b" * 100003)
        assert finished(path) == [path]


def test_a_lost_answer_to_link_is_not_taken_for_a_rival(tmp_path, monkeypatch):
    real = os.link

    def twice(*arguments):
        real(*arguments)
        real(*arguments)

    monkeypatch.setattr(os, "link", twice)
    assert publish(tmp_path / "result.json", NEW, replace=False)


def test_publish_is_durable_before_it_is_visible_or_never_waits_for_the_disk(tmp_path):
    for durable in (True, False):
        with failing_at(0) as order:
            publish(tmp_path / "x.json", NEW, durable=durable)
        assert (tmp_path / "x.json").read_text() == NEW
        assert ("fsync" in order) == durable
        if durable:
            assert order.index("write") < order.index("fsync") < order.index("rename")
            assert "fsync" in order[order.index("rename") :], (
                "the name is made durable too"
            )


def test_a_link_planted_at_the_final_name_never_leads_a_write_away(tmp_path):
    victim, path = tmp_path / "victim", tmp_path / "beat.json"
    victim.write_text("untouched")
    path.symlink_to(victim)
    assert not publish(path, NEW, replace=False)
    assert "beat.json cannot be read" in refusal(read_json, path)
    assert publish(path, NEW)
    assert path.read_text() == NEW
    assert victim.read_text() == "untouched"


def test_json_comes_back_as_it_went_and_nan_is_refused(tmp_path):
    value = {"loss": 0.1, "name": "\u202e\n\0ü", "n": 2**63}
    assert read_json(tmp_path / "x.json") is None
    publish_json(tmp_path / "x.json", value)
    with pytest.raises(ValueError, match="not JSON compliant"):
        publish_json(tmp_path / "x.json", {"loss": float("nan")})
    assert read_json(tmp_path / "x.json") == value
    assert (tmp_path / "x.json").read_bytes().isascii()


HOSTILE_NAMES = [
    *r"""
. .. ../../etc/passwd /etc/passwd a/b a\b ~ .ssh -rf $(touch) ${oc.env:HOME} ;touch %2e%2e%2f
‥ run-٣ __pycache__
""".split(),
    "",
    "a b",
    "a\nb",
    "lm1b\n",
    "a\0b",
    "\x1b[2J",
    "a\uff0fb",
    "\udcff",
    "a" * 129,
]


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=ascii)
def test_a_hostile_name_never_becomes_a_path(tmp_path, name):
    assert "choose a name of these" in refusal(child, tmp_path, name)


def test_a_plain_name_lies_directly_inside_its_root_and_is_no_link(tmp_path):
    for name in ("lm1b-d256-h8x32-s0-3f9a1c22b7d0", "a", "A.b_c-9", "x" * 128):
        assert child(tmp_path, name).parent == tmp_path
    (tmp_path / "run").symlink_to("/")
    assert "no symbolic link" in refusal(child, tmp_path, "run")


def test_a_folder_for_other_users_can_be_reached_by_them(tmp_path):
    make_directory(tmp_path / "a" / "b", 0o755)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o755
