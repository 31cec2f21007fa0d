"""JSON comes back as it went, and a file that cannot be read is named in a sentence."""

from __future__ import annotations

import os

import pytest

from sweeper.store.errors import UserError
from sweeper.store.files import canonical, publish_json, read_json, read_versioned


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b'{"a": 1', id="torn"),
        pytest.param(b"\0" * 101, id="nul_block"),
        pytest.param(b"\xff\xfe{}", id="not_text"),
        pytest.param(b'{"a": NaN}', id="nan_token"),
        pytest.param(b"[" * 100003, id="deeply_nested"),
        pytest.param(b"1" * 10007, id="endless_number"),
    ],
)
def test_a_damaged_json_file_is_named_in_one_sentence(tmp_path, content):
    path = tmp_path / "run.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"run\.json cannot be read: .*; restore") as caught:
        read_json(path)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("kind", ["directory", "pipe", "link", "below_a_file"])
def test_what_is_no_file_is_refused_without_waiting(tmp_path, kind):
    path = tmp_path / "run.json"
    if kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        (tmp_path / "elsewhere.json").write_text("{}")
        path.symlink_to(tmp_path / "elsewhere.json")
    else:
        path.write_text("{}")
        path = path / "run.json"
    with pytest.raises(UserError, match=r"run\.json cannot be read"):
        read_json(path)


def test_an_absent_file_reads_as_none(tmp_path):
    assert read_json(tmp_path / "none" / "run.json") is None


def test_another_format_is_refused(tmp_path):
    publish_json(tmp_path / "run.json", {"format": 2})
    with pytest.raises(UserError, match="it is of format 2, not 1; use the version that wrote it"):
        read_versioned(tmp_path / "run.json")


def test_json_comes_back_as_it_went(tmp_path):
    value = {"loss": 0.1, "name": "\u202e\n\0ü", "n": 2**63, "none": None, "list": [1, {"a": True}]}
    publish_json(tmp_path / "x.json", value)
    assert read_json(tmp_path / "x.json") == value
    assert (tmp_path / "x.json").read_bytes().isascii()


def test_nan_is_refused_where_json_has_no_word_for_it(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        publish_json(tmp_path / "x.json", {"loss": float("nan")})
    assert list(tmp_path.iterdir()) == []


def test_canonical_text_does_not_depend_on_the_order_of_keys():
    assert canonical({"b": [1, 2], "a": {"d": 1, "c": 2}}) == canonical(
        {"a": {"c": 2, "d": 1}, "b": [1, 2]}
    )
    assert canonical({"a": 1}) != canonical({"a": 1.0})
