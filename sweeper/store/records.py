"""The record of a run (run.json) and its result (result.json)."""

from __future__ import annotations

from dataclasses import asdict, field
from pathlib import Path
from typing import Any

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from sweeper.store import files
from sweeper.store.errors import sanitize

FILE = "run.json"
RESULT = "result.json"
Number = float | int | None


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
        return files.load(folder / FILE, cls)

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


@dataclass(frozen=True, config=ConfigDict(extra="ignore", strict=True))
class Result:
    """The content of result.json, which marks a run as done.

    Attributes:
        id: the id of the run.
        attempt: the number of the attempt that finished the run.
        metrics: the metrics of the test split.
        validation: the metrics of the last validation on the whole split.
        steps: the number of training steps.
        tokens_seen: the number of positions in all training batches.
        seconds: the duration of the training steps.
        waited_seconds: how long the process waited for a processor during these steps.
        overhead_seconds: the duration of everything else, such as the start and the evaluation.
        tokens_per_second: `tokens_seen` divided by `seconds`.
        micro_batches: the number of parts into which each batch was split.
        device: the name of the device.
        max_memory_allocated: the peak memory of tensors on a GPU, in bytes. None on a CPU.
        weights_sha256: the digest of the final weights.
        data: facts about the prepared data, such as their digest.
    """

    id: str
    attempt: int
    metrics: dict[str, Number]
    validation: dict[str, Number] = field(default_factory=dict)
    steps: Number = None
    tokens_seen: Number = None
    seconds: Number = None
    waited_seconds: Number = None
    overhead_seconds: Number = None
    tokens_per_second: Number = None
    micro_batches: int = 1
    device: str = ""
    max_memory_allocated: int | None = None
    weights_sha256: str = ""
    data: dict[str, Any] = field(default_factory=dict)
