"""Errors that a user can act on: one sentence with the key, the value and what to do."""

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import NoReturn


class UserError(Exception):
    """An error that the user can correct; `str(error)` is the sentence to print."""


class Faults(list[UserError]):
    """The errors of items that were skipped while the others continued."""

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Collect the error of the item `name` and leave the block.

        The item's files may have been edited, so that an error of any kind can come from them.
        """
        try:
            yield
        except UserError as fault:
            self.append(UserError(f"{sanitize(name)}: {fault}"))
        except (
            LookupError,
            TypeError,
            ValueError,
            AttributeError,
            ArithmeticError,
        ) as fault:
            reason = sanitize(f"{type(fault).__name__}: {fault}", 120)
            remedy = (
                f"plan it again, or remove it: {as_typed('forget')} {sanitize(name)}"
            )
            problem = f"is damaged or of another version ({reason})"
            self.append(UserError(f"{sanitize(name)} {problem}; {remedy}."))


def collect_errors(faults: Faults | None, name: str) -> AbstractContextManager[None]:
    """Collect errors of the item `name` in `faults`; raise them if `faults` is None."""
    return nullcontext() if faults is None else faults.of(name)


NOTE = "note: "  # the sweep prints lines of prepare.log that begin so


def invalid_value(key: str, value: object, expected: str, remedy: str) -> UserError:
    """Return the UserError for a value that its key does not accept.

    `invalid_value("model.heads", "four", "a whole number of at least 1", "give model.heads=8")`
    reads "model.heads=four: expected a whole number of at least 1; give model.heads=8."
    """
    where = f"{sanitize(key)}={sanitize(value)}"
    end = "" if remedy.endswith((".", "?")) else "."
    return UserError(f"{where}: expected {expected}; {remedy}{end}")


SYNONYMS = {
    "d_model": "embedding_size",
    "hidden_size": "embedding_size",
    "n_embd": "embedding_size",
    "n_heads": "heads",
    "n_head": "heads",
    "num_heads": "heads",
    "head_dim": "head_size",
    "d_ff": "feedforward_size",
    "intermediate_size": "feedforward_size",
    "n_layers": "layers",
    "n_layer": "layers",
    "num_layers": "layers",
    "lr": "learning_rate",
    "max_epochs": "steps",
    "max_steps": "steps",
    "epochs": "steps",
    "n_jobs": "slots",
    "gqa": "grouped_query",
    "mla": "latent",
    "swish": "silu",
}
"""Words of other programs, and the key, option or value here."""

_HOME = Path(__file__).resolve().parents[2]
INSTALLED = Path(sys.argv[0]).name == "headroom" or (
    _HOME.name == "headroom_attention" and not (_HOME / "setup.py").exists()
)
"""True if Headroom is an installed package with the command `headroom`; False in a checkout."""


def as_typed(name: str) -> str:
    """Return how to type the command `name` here: `as_typed("collect")` is `headroom collect` or
    `python -m sweeper collect`."""
    if INSTALLED:
        return f"headroom {name}"
    if name == "sweep":
        return "python sweep.py"
    return f"python -m tasks.{name}" if name == "train" else f"python -m sweeper {name}"


def sanitize(value: object, limit: int = 300) -> str:
    """Return `value` as one line of at most `limit` printable characters, safe for a terminal."""
    text = str(value)
    if len(text) > limit:
        text = text[: limit - 3] + "..."
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def exit_without_package(error: ModuleNotFoundError) -> NoReturn:
    """Exit with code 2 and say how to get the package that is missing."""
    remedy = "type make install and . .venv/bin/activate, or see docs/install.md"
    print(
        f"error: {error.name} is missing in {sys.executable}; {remedy}.",
        file=sys.stderr,
    )
    sys.exit(2)


def drop_output() -> None:
    """Drop the buffered text of stdout, which Python would fail to write when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
