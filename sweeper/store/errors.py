"""The error a person can act on: one sentence with the key, the value and what to do."""

from __future__ import annotations


class UserError(Exception):
    """Something a person typed or gave is wrong; `str(error)` is one sentence."""


def wrong(key: str, value: object, expected: str, remedy: str) -> UserError:
    """The error for a value that is not what its key takes.

    `wrong("model.heads", "four", "a whole number of at least 1", "give it as model.heads=8")` reads
    "model.heads=four: expected a whole number of at least 1; give it as model.heads=8."
    """
    return UserError(f"{shown(key)}={shown(value)}: expected {expected}; {remedy.rstrip('.')}.")


def shown(value: object, limit: int = 300) -> str:
    """`value` as one line of at most `limit` characters that cannot disturb a terminal or a log."""
    text = str(value)
    if len(text) > limit:
        text = text[: limit - 3] + "..."
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )
