"""Errors that a user can act on: one sentence with the key, the value and what to do."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NoReturn


class UserError(Exception):
    """An error that the user can correct. `str(error)` is the sentence to print."""


class Faults(list[UserError]):
    """A list with an error for each item, such as a run, that a command had to skip."""

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Catch an error of the block, and append a UserError that names the item `name`.

        Catch errors of many types, because users may have edited the files of the item.
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
            self.append(
                UserError(
                    f"{sanitize(name)} is damaged, or another version of Headroom wrote it "
                    f"({reason}); plan it again, or remove it: {as_typed('forget')} "
                    f"{sanitize(name)}."
                )
            )


def collect_errors(faults: Faults | None, name: str) -> AbstractContextManager[None]:
    """Return a context manager that catches an error of the item `name` and adds it to `faults`.

    If `faults` is None, the context manager catches nothing.
    """
    return nullcontext() if faults is None else faults.of(name)


# A process that prepares data writes a log. The sweep searches this log for lines that begin with
# NOTE or OTHER_CODE, and prints them for the user.
NOTE = "note: "
OTHER_CODE = "prepared by other code: "  # a folder of prepared data follows


def invalid_value(key: str, value: object, expected: str, remedy: str) -> UserError:
    """Return the UserError for a value that its key does not accept.

    Example: `invalid_value("model.heads", "four", "a whole number of at least 1", "write 8")`
    prints as "model.heads=four: expected a whole number of at least 1; write 8."
    """
    # A string may be only a part of what the user typed, so it gets no quotes.
    typed = value if isinstance(value, str) else spelled(value)
    where = f"{sanitize(key)}={sanitize(typed)}"
    end = "" if remedy.endswith((".", "?")) else "."
    return UserError(f"{where}: expected {expected}; {remedy}{end}")


def spelled(value: Any) -> str:
    """Return a value as written on the command line. A string like "4" or "true" gets quotes."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str) and re.fullmatch(r"[-+.0-9eE_]+|true|false|null|", value):
        return f'"{value}"'
    if isinstance(value, list):
        return f"[{','.join(map(spelled, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{key}:{spelled(one)}' for key, one in value.items())}}}"
    return str(value)


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
"""Maps the names of keys, options and values in other libraries to the names in Headroom."""

_HOME = Path(__file__).resolve().parents[2]
INSTALLED = Path(sys.argv[0]).name == "headroom" or (
    _HOME.name == "headroom_attention" and not (_HOME / "setup.py").exists()
)
"""True if Headroom is installed as a package with the command `headroom`. False in a checkout."""


def as_typed(name: str) -> str:
    """Return what a user types to run the command `name`.

    `as_typed("collect")` returns `headroom collect` for an installed package and
    `python -m sweeper collect` in a checkout.
    """
    if INSTALLED:
        return f"headroom {name}"
    if name == "sweep":
        return "python sweep.py"
    return f"python -m tasks.{name}" if name == "train" else f"python -m sweeper {name}"


def sanitize(value: object, limit: int = 300) -> str:
    """Return `value` as one line of printable characters, safe for a terminal.

    Longer text is cut to `limit` characters.
    """
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
    """Print how to install the missing package, and exit with code 2."""
    remedy = "run `make install` and `. .venv/bin/activate`, or see docs/install.md"
    print(
        f"error: {error.name} is missing in {sys.executable}; {remedy}.",
        file=sys.stderr,
    )
    sys.exit(2)


def drop_output() -> None:
    """Send stdout to /dev/null. After a broken pipe, this avoids a second error at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
