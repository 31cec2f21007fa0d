"""Sizes of configs as the size server counts them, cached on disk."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from sweeper.size_server import SizeServer
from sweeper.store import registry
from sweeper.store.code import TRAINS, sources
from sweeper.store.errors import UserError
from sweeper.store.files import (
    CHECKSUM,
    FORMAT,
    canonical,
    make_directory,
    publish,
    read_versioned,
    with_checksum,
)
from sweeper.store.identity import digest_of, identity

Size = dict[str, int]
SAME_SIZE = ("seed", "data", "parent")
"""Keys of a config that the size of its model does not depend on."""
_SHAPE = {"sizes": {str: {str: int}}}


class Invalid(UserError):
    """An invalid config; the sentence says why."""


@dataclass
class Sizes:
    """Sizes of configs: `params_total`, `params_non_embedding`, `flops_per_token`, ...

    The cache is keyed by config and by the code that builds it; losing it costs only time.

    Attributes:
        built: the number of models built.
    """

    process: SizeServer
    path: Path
    built: int = 0

    @cached_property
    def _known(self) -> dict[str, Size]:
        stored = None
        with contextlib.suppress(UserError):  # a damaged cache is built again
            stored = read_versioned(self.path, keys=("code", "sizes", CHECKSUM), shape=_SHAPE)
        return stored["sizes"] if stored and stored["code"] == self._code else {}

    @cached_property
    def _code(self) -> str:
        root = registry.ROOT
        paths = sorted(sources(root, TRAINS))
        own = [(str(path.relative_to(root)), path.read_text("utf-8")) for path in paths]
        kinds = (registry.TASKS, registry.ARCHITECTURES, registry.ATTENTION)
        every = [registry.made_of(kind, name) for kind in kinds for name in registry.names(kind)]
        return digest_of([own, every])

    def of(self, configs: Sequence[Mapping[str, Any]]) -> list[Size]:
        """Return the size of each config; Invalid if one of them has none."""
        answers = self.answers(configs)
        if faults := [answer for answer in answers if isinstance(answer, Invalid)]:
            more = f" (and {len(faults) - 1} more points like it)" if len(faults) > 1 else ""
            raise Invalid(f"{faults[0]}{more}")
        return [answer for answer in answers if not isinstance(answer, Invalid)]

    def answers(self, configs: Sequence[Mapping[str, Any]]) -> list[Size | Invalid]:
        """Return the size of each config, or why it has none."""
        parts = [identity(config).items() for config in configs]
        keys = [digest_of([{k: v for k, v in part if k not in SAME_SIZE}]) for part in parts]
        asked = {
            key: config for key, config in zip(keys, configs, strict=True) if key not in self._known
        }
        found: dict[str, Size | Invalid] = {}
        answers = self.process.ask({"op": "size", "config": config} for config in asked.values())
        for key, answer in zip(asked, answers, strict=True):
            if "error" in answer:
                found[key] = Invalid(answer["error"])
            else:
                self._known[key] = answer["size"]
                self.built += 1
        return [found[key] if key in found else self._known[key] for key in keys]

    def save(self) -> None:
        """Write the cache if possible; called once, at the end of planning."""
        if not self.built:
            return
        known = {"format": FORMAT, "code": self._code, "sizes": self._known}
        with contextlib.suppress(OSError, UserError):  # a dry run works on a read-only store
            make_directory(self.path.parent)
            publish(self.path, canonical(with_checksum(known)), durable=False)
