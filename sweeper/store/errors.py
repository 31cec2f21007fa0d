"""The error a person can act on: one sentence with the key, the value and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext


class UserError(Exception):
    """Something a person typed or gave is wrong; `str(error)` is one sentence."""


class Faults(list[UserError]):
    """Why things could not be made of some, each a sentence, while the others go on."""

    @contextmanager
    def of(self, what: str) -> Iterator[None]:
        """Keep what goes wrong with one of them, made of files that anybody may have written."""
        try:
            yield
        except UserError as fault:
            self.append(UserError(f"{sanitize(what)}: {fault}"))
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as fault:
            said = sanitize(f"{type(fault).__name__}: {fault}", 120)
            remedy = f"plan it again, or python -m sweeper forget {sanitize(what)}"
            self.append(
                UserError(f"{sanitize(what)} is not what this version plans ({said}); {remedy}.")
            )


def collect_errors(faults: Faults | None, what: str) -> AbstractContextManager[None]:
    """`Faults.of`; where there is nowhere to keep them, what goes wrong is raised."""
    return nullcontext() if faults is None else faults.of(what)


def invalid_value(key: str, value: object, expected: str, remedy: str) -> UserError:
    """The error for a value that is not what its key takes.

    `wrong("model.heads", "four", "a whole number of at least 1", "give it as model.heads=8")` reads
    "model.heads=four: expected a whole number of at least 1; give it as model.heads=8."
    """
    return UserError(
        f"{sanitize(key)}={sanitize(value)}: expected {expected}; {remedy.rstrip('.')}."
    )


def sanitize(value: object, limit: int = 300) -> str:
    """`value` as one line of at most `limit` characters that cannot disturb a terminal or a log."""
    text = str(value)
    if len(text) > limit:
        text = text[: limit - 3] + "..."
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )
