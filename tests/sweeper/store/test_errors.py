"""What a person reads is one harmless sentence."""

from __future__ import annotations

import pytest

from sweeper.store.errors import invalid_value, sanitize


def test_wrong_names_key_value_expectation_and_remedy():
    error = invalid_value(
        "model.heads", "four", "a whole number of at least 1", "give it as model.heads=8."
    )
    assert str(error) == (
        "model.heads=four: expected a whole number of at least 1; give it as model.heads=8."
    )


@pytest.mark.parametrize(
    "hostile",
    [
        pytest.param("a\nb", id="newline"),
        pytest.param("a\rb", id="carriage_return"),
        pytest.param("\x1b[31mred", id="terminal_colour"),
        pytest.param("\x00", id="nul"),
        pytest.param("abc\u202edcba", id="bidirectional_override"),
        pytest.param("\udcff", id="undecodable_byte"),
        pytest.param("line\u2028separator", id="line_separator"),
    ],
)
def test_shown_is_one_printable_line(hostile):
    assert sanitize(hostile).isprintable()
    assert sanitize(hostile) != hostile


def test_shown_bounds_long_values():
    assert len(sanitize("x" * 10007, 53)) == 53
