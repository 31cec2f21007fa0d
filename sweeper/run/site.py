"""What a backend is made from, and how its options are read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeper.model_process import ModelProcess
from sweeper.store.errors import wrong
from sweeper.store.runs import Run


@dataclass(frozen=True)
class Demand:
    """What one run takes, from the `trainer` section of its config."""

    accelerator: str
    devices: int  # on each node
    nodes: int
    threads: int  # of each device's process

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Demand:
        """What a run with this config takes."""
        trainer = config["trainer"]
        return cls(
            trainer["accelerator"], trainer["devices"], trainer["num_nodes"], trainer["threads"]
        )

    @classmethod
    def of_record(cls, run: Path) -> Demand:
        """What the frozen run in this directory takes."""
        return cls.of(Run.open(run).record()["config"])

    def refuse_nodes(self, name: str) -> None:
        """UserError if a run wants several machines of a backend that starts it on one."""
        if self.nodes != 1:
            expected = f"1, since hydra/launcher={name} starts a run on one machine"
            raise wrong("trainer.num_nodes", self.nodes, expected, "choose hydra/launcher=slurm")


@dataclass(frozen=True)
class Site:
    """Where and for whom a backend works.

    `demands` are those of the plan's runs; `process` is the warm process on this machine.
    """

    options: Options
    demands: Collection[Demand]
    logger: str
    outputs: Path
    process: ModelProcess


class Options:
    """The `hydra.launcher` section, read key by key; what it holds beyond is refused."""

    def __init__(self, name: str, values: Mapping[str, Any]) -> None:
        self.name = name
        self._values = dict(values)

    def finish(self) -> None:
        """UserError if a key was given that the backend has never asked for."""
        for key, value in self._values.items():
            remedy = f"conf/hydra/launcher/{self.name}.yaml lists them"
            raise wrong(f"hydra.launcher.{key}", value, f"an option of {self.name}", remedy)

    def number(self, key: str, least: float, *, example: float) -> float | None:
        """A number of at least `least`, or None for null."""
        value: float | None = self._values.pop(key, None)
        fits = isinstance(value, int | float) and not isinstance(value, bool) and value >= least
        if value is not None and not fits:
            raise self._wrong(key, value, f"a number of at least {least:g}, or null", example)
        return value

    def whole(self, key: str, least: int, *, example: int) -> int | None:
        """A whole number of at least `least`, or None for null."""
        value: int | None = self._values.pop(key, None)
        fits = isinstance(value, int) and not isinstance(value, bool) and value >= least
        if value is not None and not fits:
            raise self._wrong(key, value, f"a whole number of at least {least}, or null", example)
        return value

    def word(self, key: str, *, example: str) -> str | None:
        """A word without blanks, or None for null."""
        value = self._values.pop(key, None)
        fits = isinstance(value, str | int) and str(value).isprintable()
        if value is not None and not (fits and str(value) and " " not in str(value)):
            raise self._wrong(key, value, "a word without blanks, or null", example)
        return None if value is None else str(value)

    def lines(self, key: str, *, example: str) -> list[str]:
        """A list of lines; none for null."""
        value = self._values.pop(key, None)
        value = [] if value is None else value
        if isinstance(value, str) or not all(isinstance(v, str) and v.isprintable() for v in value):
            raise self._wrong(key, value, "a list of lines", example)
        return list(value)

    def _wrong(self, key: str, value: object, expected: str, example: object) -> Exception:
        name = f"hydra.launcher.{key}"
        return wrong(name, value, expected, f"give it as {name}={example}")
