"""The one door to Weights & Biases: which project, with which key, and its errors as sentences."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sweeper.store.errors import UserError, invalid_value, sanitize

_LETTERS = 200  # of what W&B says of an error


@dataclass(frozen=True)
class Project:
    """A project there. Without an entity it is the default one of whoever owns the key."""

    entity: str | None
    name: str

    @classmethod
    def parse(cls, text: str, option: str) -> Project:
        """The project of `ENTITY/PROJECT`."""
        entity, _, name = text.partition("/")
        if not entity or not name or "/" in name:
            remedy = f"give it as {option} me/headroom"
            raise invalid_value(
                option, text, "ENTITY/PROJECT, as in the address of its page", remedy
            )
        return cls(entity, name)


def project_of(records: Iterator[Mapping[str, Any]]) -> Project:
    """The project that runs are mirrored to.

    Raises:
        UserError: they are not mirrored, or not all to the same.
    """
    found = set()
    for record in records:
        logger = record["config"].get("logger") or {}
        if logger.get("name") == "wandb":
            found.add(Project(logger.get("entity"), logger["project"]))
    if len(found) != 1:
        names = ", ".join(sorted(f"{one.entity}/{one.name}" for one in found)) or "none"
        expected = "runs that are mirrored to one project (logger=wandb)"
        raise invalid_value(
            "logger.project", names, expected, "name one with --project ENTITY/PROJECT"
        )
    return found.pop()


def module(name: str, remedy: str) -> Any:
    """A library of W&B, imported when it is needed; UserError where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        package = name.partition(".")[0].replace("_", "-")
        raise UserError(f"The package {package} is not installed; {remedy}.") from None


@contextmanager
def sentences() -> Iterator[None]:
    """Whatever W&B raises in here is one UserError: its libraries raise almost anything."""
    try:
        yield
    except (UserError, KeyboardInterrupt):
        raise
    except Exception as error:
        raise UserError(f"Weights & Biases refused: {_said(error)}.") from error


def connected() -> Any:
    """The public interface, with whoever's key there is; UserError without one.

    A key that is refused is told by the first question.
    """
    wandb = module("wandb", "install it: pip install wandb")
    from wandb.errors import AuthenticationError, UsageError

    wandb.setup(wandb.Settings(silent=True))
    try:
        with sentences():
            return wandb.Api()
    except UserError as error:
        if isinstance(error.__cause__, AuthenticationError | UsageError):
            remedy = "set WANDB_API_KEY or run `wandb login`, where its server can be reached"
            said = _said(error.__cause__)
            raise UserError(f"Weights & Biases lets nobody in: {said}; {remedy}.") from None
        raise


def _said(error: BaseException) -> str:
    words = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return sanitize(words, _LETTERS)
