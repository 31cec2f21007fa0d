"""A name is data: it becomes a path in one place, and never one outside its folder."""

from __future__ import annotations

import pytest

from sweeper.store.errors import UserError
from sweeper.store.files import child

HOSTILE_NAMES = {
    "empty": "",
    "here": ".",
    "up": "..",
    "up_and_away": "../../etc/passwd",
    "absolute": "/etc/passwd",
    "inner_slash": "a/b",
    "backslash": "a\\b",
    "home": "~",
    "hidden": ".ssh",
    "option": "-rf",
    "nul": "a\0b",
    "newline_at_end": "lm1b\n",
    "newline": "a\nb",
    "terminal": "\x1b[2J",
    "space": "a b",
    "substitution": "$(touch x)",
    "interpolation": "${oc.env:HOME}",
    "semicolon": ";touch x",
    "percent": "%2e%2e%2f",
    "unicode_dots": "‥",
    "fullwidth_slash": "a\uff0fb",
    "arabic_digit": "run-٣",
    "surrogate": "\udcff",
    "too_long": "a" * 129,
    "underscore_first": "__pycache__",
}


@pytest.mark.parametrize("name", HOSTILE_NAMES.values(), ids=HOSTILE_NAMES.keys())
def test_a_hostile_name_never_becomes_a_path(tmp_path, name):
    with pytest.raises(UserError, match="choose a plain name") as caught:
        child(tmp_path, name)
    assert str(caught.value).isprintable()


def test_a_plain_name_lies_directly_inside_its_root(tmp_path):
    for name in ("lm1b-d256-h8x32-s0-3f9a1c22b7d0", "a", "A.b_c-9", "x" * 128):
        assert child(tmp_path, name).parent == tmp_path


def test_a_link_in_the_place_of_a_name_is_refused(tmp_path):
    (tmp_path / "run").symlink_to("/")
    with pytest.raises(UserError, match="no symbolic link"):
        child(tmp_path, "run")
