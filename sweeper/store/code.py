"""The state of the code: its files as they were read once, the commit they are of, their parts.

A part is a folder of models/ or tasks/, or a package of other people. What else there is (plans,
tables, documents) changes no result; nor do other tasks change those of a task.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import math
import secrets
import shutil
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeper.store import registry
from sweeper.store.errors import UserError, sanitize
from sweeper.store.files import child, make_directory, publish, read_bytes
from sweeper.store.identity import digest_of
from sweeper.store.registry import ROOT

DISTRIBUTION = "headroom-attention"
REVISION = "REVISION"  # a file beside carried code: what `revision` was at home

TRAINS = ("models", "tasks")
FOLDERS = (*TRAINS, "sweeper/store", "sweeper/run", "sweeper/carry")
BESIDE = ("sweeper/__init__.py", "sweeper/size_server.py", "sweeper/options.py")
COMMIT = "commit"  # in place of parts, where nothing tells these
LOOK_S = 30.0  # seconds, at least, from one look to the next: it is many files
_NO_PART = "tasks/size_server"  # it starts jobs


@dataclass(frozen=True)
class Code:
    """The program below `root` as far as jobs need it: source by path; it knows no Hydra."""

    root: Path
    files: Mapping[str, bytes]

    @classmethod
    def read(cls, root: Path = ROOT) -> Code:
        """The code as it lies there now."""
        paths = [*sources(root, FOLDERS), *(root / name for name in BESIDE)]
        return cls(root, {path.relative_to(root).as_posix(): path.read_bytes() for path in paths})

    def parts(
        self, task: str | None = None, packages: Iterable[Mapping[str, str]] = ()
    ) -> dict[str, str]:
        """By part the digest of what a result of a task (of any, if None) can depend on."""
        others = {f"tasks/{name}" for name in registry.names(registry.TASKS)} - {f"tasks/{task}"}
        left_out = tuple(f"{folder}/" for folder in (_NO_PART, *(others if task else ())))
        folders: dict[str, dict[str, str]] = {}
        for path, source in self.files.items():
            if path.startswith(TRAINS) and not path.startswith(left_out):
                folder = path.rpartition("/")[0]
                folders.setdefault(folder, {})[path] = hashlib.sha256(source).hexdigest()
        outside = {f"package {one['package']}": one["sha256"][:12] for one in packages}
        return {part: digest_of(folders[part])[:12] for part in sorted(folders)} | outside

    @functools.cached_property
    def revision(self) -> str:
        """The commit; "-dirty-" and a digest of what trains, where that is not the commit's; the
        version of the program if installed."""
        with suppress(OSError):
            return (self.root / REVISION).read_text("utf-8").strip()
        if not (self.root / ".git").exists():  # around an installed program it is another's
            with suppress(importlib.metadata.PackageNotFoundError):
                return f"{DISTRIBUTION} {importlib.metadata.version(DISTRIBUTION)}"
            return "unknown"
        commit = self._git("describe", "--always", "--abbrev=12", "--exclude=*").strip()
        edited = self._git("status", "--porcelain", "--", *TRAINS)
        dirty = f"-dirty-{digest_of(self.parts())[:8]}" if edited else ""
        return f"{commit}{dirty}" if commit else "unknown"

    def diff(self) -> str:
        """What was changed since the commit in all that plans and trains; empty if nothing."""
        if not (self.root / ".git").exists():
            return ""
        plain = ("--no-ext-diff", "--no-textconv", "--no-color", "--binary")
        return self._git("diff", "HEAD", *plain, "--", *TRAINS, "sweeper", "conf")

    def _git(self, *words: str) -> str:
        command = ["git", "--no-optional-locks", *words]
        try:
            done = subprocess.run(
                command, cwd=self.root, capture_output=True, timeout=10, check=True
            )
        except (OSError, subprocess.SubprocessError):
            return ""
        return done.stdout.decode("utf-8", "replace")


def sources(root: Path, folders: Iterable[str]) -> list[Path]:
    """The Python files below folders of a program."""
    found = [path for folder in folders for path in (root / folder).rglob("*.py")]
    # Editors and file systems leave links to nowhere, and hidden files, beside what is edited.
    return [path for path in found if path.is_file() and not path.name.startswith(".")]


@dataclass
class Edits:
    """Looks at the code now and then, and tells once that it is no longer what it was."""

    code: Code
    _next_look: float = -math.inf

    def new(self) -> list[str]:
        """The parts that changed, if that was not told yet."""
        if time.monotonic() < self._next_look:
            return []
        self._next_look = time.monotonic() + LOOK_S
        changed = []
        with suppress(OSError):  # files come and go while another commit is checked out
            changed = differing([self.code.parts(), Code.read(self.code.root).parts()])
        if changed:
            self._next_look = math.inf
        return changed


@functools.cache
def running() -> Code:
    """The code of this process: as it was when this was first asked, here or before a fork."""
    return Code.read()


def state_of(attempt: Mapping[str, Any]) -> dict[str, str]:
    """What attempt.json says of the code by parts; of an earlier program's the commit alone."""
    said = attempt.get("code")
    return attempt.get("code_parts") or ({COMMIT: said} if said else {})


def differing(states: Sequence[Mapping[str, str]]) -> list[str]:
    """The parts that states of the code which have them do not agree on."""
    parts = sorted({part for state in states for part in state})
    return [part for part in parts if len({one[part] for one in states if part in one}) > 1]


DIFF = "changes.diff"


def needed(code: Code, configs: Iterable[Mapping[str, Any]]) -> dict[str, Path | bytes]:
    """What jobs with these configs are started from, by path; of packages those that they name."""
    named = {found for config in configs for found in registry.named_by(config)}
    outside = [registry.files_of(*found) for found in sorted(named)]
    return {
        **{name: file for files in outside for name, file in files.items()},
        **code.files,
        REVISION: code.revision.encode(),
    }


def pin(outputs: Path, code: Code, configs: Iterable[Mapping[str, Any]]) -> Path:
    """Have the code that runs with these configs need in a folder of outputs/code; which it is.

    Raises:
        UserError: what lies there is not what was written, or a link.
    """
    files = {
        name: content if isinstance(content, bytes) else content.read_bytes()
        for name, content in needed(code, configs).items()
    }
    beside = {REVISION: files.pop(REVISION), DIFF: code.diff().encode()}
    root = outputs.resolve() / "code"
    make_directory(root)
    root.chmod(0o700)  # whoever could write there would run code as its owner
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    folder = child(root, digest_of(digests)[:16])
    if not folder.is_dir():
        _write(folder, files)
    _verify(folder, files)
    for name, content in beside.items() if code.root != folder else ():
        publish(folder / name, content)
    return folder


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    """All or nothing: another sweep may write, or start from, the same folder."""
    made = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}.tmp")
    try:
        for name, content in files.items():
            make_directory((made / name).parent)
            publish(made / name, content, durable=False)
        made.rename(folder)
    except OSError:
        if not folder.is_dir():  # else another's was first, which is verified as ours would be
            raise
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _verify(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        with suppress(OSError):
            if read_bytes(folder / name) == content:
                continue
        raise UserError(
            f"{sanitize(folder / name)} is not the code that was pinned there; remove the folder "
            f"{folder.name} once no job waits to start from it: it is written again."
        )
