"""The record of a run: its config, its size and its readable names."""

from __future__ import annotations

from dataclasses import asdict, field
from pathlib import Path
from typing import Any

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from sweeper.store import files
from sweeper.store.errors import sanitize

FILE = "run.json"


@dataclass(frozen=True, config=ConfigDict(extra="ignore"))
class Record:
    """The content of run.json, which describes a planned run.

    Attributes:
        id: the id of the run.
        config: the nested config.
        size: the numbers of parameters, tokens and FLOPs.
        names: the experiment, the arm and a label, for messages. They do not affect the id.
    """

    id: str
    config: dict[str, Any]
    size: dict[str, int | float] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path) -> Record | None:
        """Return the record in a run's folder, or None if the folder has none.

        Raise UserError if the record cannot be read.
        """
        found = files.read_versioned(folder / FILE, schema=cls)
        return None if found is None else cls(**found)

    def save(self, folder: Path, *, replace: bool) -> bool:
        """Write the record. Return False if the folder has a record and `replace` is False."""
        value = {"format": files.FORMAT, **asdict(self)}
        return files.publish_with_checksum(folder / FILE, value, replace=replace)

    @property
    def label(self) -> str:
        """The readable name of the run, such as "fig1/fixed heads=8 seed=0"."""
        names = self.names
        return sanitize(f"{names['experiment']}/{names['arm']} {names['label']}")

    @property
    def parent(self) -> str | None:
        """The id of the run whose weights this run starts from, or None."""
        parent: str | None = self.config.get("parent")
        return parent

    @property
    def steps(self) -> int:
        """The number of training steps."""
        steps: int = self.config["trainer"]["steps"]
        return steps

    @property
    def flops(self) -> int:
        """The number of FLOPs of the training."""
        return int(self.size["tokens"] * self.size["flops_per_token"])
