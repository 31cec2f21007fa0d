"""How big a config is, asked of the model process and remembered on disk."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from sweeper.model_process import ModelProcess
from sweeper.store import registry
from sweeper.store.errors import UserError
from sweeper.store.files import publish
from sweeper.store.identity import digest_of, identity

Size = dict[str, int]


class Invalid(UserError):
    """A config that no run can have; the sentence says why."""


class Sizes:
    """Sizes of configs: `params_total`, `params_non_embedding`, `flops_per_token`, ...

    A size is a fact about a config and the code that builds it, so the memory is keyed by both;
    losing it costs time only.
    """

    def __init__(self, process: ModelProcess, memory: Path) -> None:
        self._process = process
        self._path = memory
        self.built = 0  # models actually built, for tests and the curious

    @cached_property
    def _known(self) -> dict[str, Size]:
        try:
            stored = json.loads(self._path.read_text())
            return dict(stored["sizes"]) if stored["code"] == self._code else {}
        except (OSError, ValueError, KeyError, TypeError):
            return {}

    @cached_property
    def _code(self) -> str:
        root = registry.ROOT
        sources = [p for room in ("models", "tasks") for p in sorted((root / room).rglob("*.py"))]
        own = [(str(p.relative_to(root)), p.read_text()) for p in sources]
        kinds = (registry.TASKS, registry.ARCHITECTURES, registry.ATTENTION)
        every = [registry.made_of(kind, name) for kind in kinds for name in registry.names(kind)]
        return digest_of([own, every])

    def of(self, configs: Sequence[Mapping[str, Any]]) -> list[Size | Invalid]:
        """The size of each config, or why it has none."""
        keys = [digest_of(_sized_part(config)) for config in configs]
        asked = {
            key: config for key, config in zip(keys, configs, strict=True) if key not in self._known
        }
        found: dict[str, Size | Invalid] = {}
        answers = self._process.ask({"op": "size", "config": c} for c in asked.values())
        for key, answer in zip(asked, answers, strict=True):
            if "error" in answer:
                found[key] = Invalid(answer["error"])
            else:
                self._known[key] = answer["size"]
                self.built += 1
        return [found.get(key) or self._known[key] for key in keys]

    def save(self) -> None:
        """Keep what was learned, where that can be written; called once, at the end of planning."""
        if not self.built:
            return
        with contextlib.suppress(OSError):  # a dry run works on a store that is read-only
            self._path.parent.mkdir(parents=True, exist_ok=True)
            publish(
                self._path, json.dumps({"code": self._code, "sizes": self._known}), durable=False
            )


def _sized_part(config: Mapping[str, Any]) -> dict[str, Any]:
    part = identity(config)
    return {key: value for key, value in part.items() if key not in ("seed", "data", "parent")}
