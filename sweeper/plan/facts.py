"""Ask the size server for sizes of models and facts about texts, and cache the answers.

The size server is a process that builds models and counts their parameters (size_server.py).
"""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from sweeper.size_server import SizeServer
from sweeper.store import files, registry
from sweeper.store.code import TRAINS, sources
from sweeper.store.errors import UserError
from sweeper.store.identity import digest_of

# The size of a model, such as {"params_total": 26900, "flops_per_token": 172000}. All values are
# whole numbers except `width`, which is heads * head size, averaged over the layers.
Size = dict[str, int | float]
SAME_SIZE = ("seed", "data", "parent")
"""Keys of a config that do not change the size of its model."""


class _Cache(TypedDict):
    code: str
    sizes: dict[str, Size]
    texts: dict[str, dict[str, Any]]


class Invalid(UserError):
    """Raised for an invalid config. The message says why the config is invalid."""


@dataclass
class Facts:
    """A cached interface to the size server, for sizes of models and facts about training texts.

    The cache is the file `path`, keyed by config. Users may delete it. If the code that computes
    the answers has changed, the cache starts empty.
    """

    process: SizeServer
    path: Path
    asked: int = 0  # how many answers came from the server instead of the cache

    @cached_property
    def _known(self) -> dict[str, dict[str, Any]]:
        stored = None
        # If the file is damaged, start with an empty cache.
        with contextlib.suppress(UserError):
            stored = files.read_versioned(self.path, schema=_Cache)
        if stored is None or stored["code"] != self._code:
            return {"sizes": {}, "texts": {}}
        return {part: stored[part] for part in ("sizes", "texts")}

    @cached_property
    def _code(self) -> str:
        root = registry.ROOT
        paths = sorted(sources(root, TRAINS))
        own = [(str(path.relative_to(root)), path.read_text("utf-8")) for path in paths]
        kinds = (registry.TASKS, registry.ARCHITECTURES, registry.ATTENTION)
        every = [
            registry.made_of(kind, name)
            for kind in kinds
            for name in registry.names(kind)
        ]
        return digest_of([own, every])

    def sizes(self, configs: Sequence[Mapping[str, Any]]) -> list[Size]:
        """Return the size of each config. Raise Invalid if a config is invalid."""
        parts = [
            {k: v for k, v in config.items() if k not in SAME_SIZE}
            for config in configs
        ]
        # Do not use digest_of, which gives 8 and 8.0 the same key. The server refuses 8.0 where it
        # expects 8, so the two need different keys.
        keys = [files.sha256_of(part) for part in parts]
        known: dict[str, Size] = self._known["sizes"]
        asked = {
            key: config
            for key, config in zip(keys, configs, strict=True)
            if key not in known
        }
        answers = self.process.ask(
            [{"op": "size", "config": config} for config in asked.values()]
        )
        for key, answer in zip(asked, answers, strict=True):
            if "error" in answer:
                raise Invalid(answer["error"])
            known[key] = answer["size"]
            self.asked += 1
        return [known[key] for key in keys]

    def text(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return facts about a config's training text. Raise UserError if the text is missing.

        The server reads the text again only if the size or the times of a file have changed.

        Returns:
            A dict with these keys:

            - `digest`: the digest of the text
            - `describe`: a description of the text
            - `prepared`: the name of the prepared data
            - `metrics`: the names of the metrics that the task measures
        """
        data = {key: value for key, value in config["data"].items() if key != "digest"}
        # data.hub.path names a data set of the Hub, or a local folder.
        place = data["root"] or (data.get("hub") or {}).get("path")
        fingerprints = _fingerprints(Path(place)) if place else None
        key = digest_of([data, config["task"], fingerprints])
        known = self._known["texts"]
        if key not in known:
            [answer] = self.process.ask([{"op": "data", "config": config}])
            if "error" in answer:
                raise UserError(answer["error"])
            known[key] = {fact: value for fact, value in answer.items() if fact != "id"}
            self.asked += 1
        return dict(known[key])

    def save(self) -> None:
        """Write new answers to the cache on disk, if possible. Call this at the end of planning."""
        if not self.asked:
            return
        known = {"format": files.FORMAT, "code": self._code, **self._known}
        content = files.canonical(files.with_checksum(known))
        # Ignore errors, so that a dry run works with a read-only outputs folder.
        with contextlib.suppress(OSError, UserError):
            files.make_directory(self.path.parent)
            files.publish(self.path, content, durable=False)


def _fingerprints(root: Path) -> list[list[Any]]:
    """Return path, size and times of `root` and of all files and folders in it.

    If a file changes, so does the result.
    """
    root = root.expanduser()
    found = []
    for path in sorted([root, *root.rglob("*")]):
        with contextlib.suppress(OSError):
            stat = path.stat()
            found.append([str(path), stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns])
    return found
