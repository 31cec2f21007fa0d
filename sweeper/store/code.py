"""The code that trains runs: its files, its commit, and the digest of each part.

A part is a folder of models/ or tasks/, or the package of a plugin. A run does not depend on tasks
other than its own, or on the code that plans sweeps and draws figures. Queued jobs execute a copy
of the code in outputs/code/<digest>, so that edits of the checkout do not affect these jobs.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.machinery import BYTECODE_SUFFIXES, all_suffixes
from pathlib import Path
from typing import Any

from sweeper.store import registry
from sweeper.store.errors import UserError, sanitize
from sweeper.store.files import child, make_directory, publish, read_bytes
from sweeper.store.identity import digest_of
from sweeper.store.registry import ROOT, Kind, Named

DISTRIBUTION = "headroom-attention"
# A file in each copy of the code. It lists the revisions whose code equals the copy, newest first.
REVISION = "REVISION"

TRAINS = ("models", "tasks")
FOLDERS = (*TRAINS, "sweeper/store", "sweeper/run")
# Files outside FOLDERS that jobs need as well.
BESIDE = tuple(
    f"sweeper/{name}.py"
    for name in ("__init__", "__main__", "size_server", "cli/__init__", "cli/process")
)
# A run does not depend on these folders, because training does not use them.
_NO_PARTS = ("tasks/size_server/", "tasks/export/")


# With eq=False, instances are hashed by identity. The dict `files` itself cannot be hashed.
@dataclass(frozen=True, eq=False)
class Code:
    """The source files that jobs execute.

    Attributes:
        root: the folder of the files.
        files: the content of each file, by path relative to `root`.
    """

    root: Path
    files: Mapping[str, bytes]

    @classmethod
    def read(cls, root: Path = ROOT) -> Code:
        """Read the source files in FOLDERS and BESIDE, which are paths relative to `root`."""
        paths = [*sources(root, FOLDERS), *(root / name for name in BESIDE)]
        return cls(
            root,
            {path.relative_to(root).as_posix(): path.read_bytes() for path in paths},
        )

    def parts(
        self, task: str | None = None, packages: Iterable[Mapping[str, str]] = ()
    ) -> dict[str, str]:
        """Return the digest of each part that the results of a task depend on.

        Args:
            task: the name of the task. None means all tasks.
            packages: the plugins of a run, as `registry.made_of` returns them.
        """
        tasks = registry.names(registry.TASKS) if task else []
        others = [f"tasks/{name}/" for name in tasks if name != task]
        left_out = (*_NO_PARTS, *others)

        folders: dict[str, dict[str, str]] = {}
        for path, source in self.files.items():
            if path.startswith(TRAINS) and not path.startswith(left_out):
                folder = path.rpartition("/")[0]
                digest = hashlib.sha256(source).hexdigest()
                folders.setdefault(folder, {})[path] = digest

        parts = {part: digest_of(folders[part])[:12] for part in sorted(folders)}
        outside = {f"package {one['package']}": one["sha256"][:12] for one in packages}
        return parts | outside

    def recorded(self, named: Named) -> dict[str, Any]:
        """Return the entries of attempt.json that say which code trains a run.

        The entry `code_parts` has the digest of each part. If the run uses plugins, the entry
        `packages` describes them (see `registry.made_of`).

        Args:
            named: the modules that the run's config names (see `registry.named_by`).
        """
        packages = [made for one in named if (made := registry.made_of(*one))]
        parts = self.parts(dict(named)[registry.TASKS], packages)
        return {"code_parts": parts, **({"packages": packages} if packages else {})}

    @functools.cached_property
    def revision(self) -> str:
        """The commit of a checkout, or the version of an installed package.

        If training code was edited since the commit, "-dirty-" and a digest are appended.
        """
        with suppress(OSError):
            return (self.root / REVISION).read_text("utf-8").strip().partition("\n")[0]
        # An installed package has no .git, so git would search the parent folders for a repository.
        if not (self.root / ".git").exists():
            with suppress(importlib.metadata.PackageNotFoundError):
                return f"{DISTRIBUTION} {importlib.metadata.version(DISTRIBUTION)}"
            return "unknown"
        commit = self._git("describe", "--always", "--abbrev=12", "--exclude=*").strip()
        edited = self._git("status", "--porcelain", "--", *TRAINS)
        dirty = f"-dirty-{digest_of(self.parts())[:8]}" if edited else ""
        return f"{commit}{dirty}" if commit else "unknown"

    def _git(self, *words: str) -> str:
        # Ignore the user's settings and environment variables for git, which may change the output
        # or name another repository.
        others = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("GIT_")
        }
        environment = {
            **others,
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
        }
        # In a container, the checkout may belong to another user. git then reads it only if
        # `safe.directory` names it.
        safe = f"safe.directory={self.root.resolve()}"
        git = ["git", "--no-optional-locks", "-c", safe, "-c", "core.fsmonitor=false"]

        try:
            done = subprocess.run(
                [*git, *words],
                cwd=self.root,
                env=environment,
                capture_output=True,
                timeout=10,
                check=True,
            )
        except (OSError, subprocess.SubprocessError):
            return ""
        return done.stdout.decode("utf-8", "replace")


def sources(root: Path, folders: Iterable[str]) -> list[Path]:
    """Return the Python files below these folders of `root`."""
    found = [path for folder in folders for path in (root / folder).rglob("*.py")]
    # Leave out the dangling links and hidden files that editors create next to an open file.
    return [path for path in found if path.is_file() and not path.name.startswith(".")]


@functools.cache
def loaded_code() -> Code:
    """Return the current code. The first call reads it. Forked processes inherit the result."""
    return Code.read()


def differing(states: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the parts whose digests differ between states, sorted.

    Each state maps parts to digests. If a state lacks a part, compare the other states.
    """
    parts = sorted({part for state in states for part in state})
    return [
        part for part in parts if len({one[part] for one in states if part in one}) > 1
    ]


def needed(code: Code, named: Iterable[tuple[Kind, Any]]) -> dict[str, bytes]:
    """Return the content of the files that jobs execute, by path.

    These are the files of `code`, and the packages of the plugins that the jobs use. `named` has a
    (kind, name) pair for each module that a config of the jobs names.
    """
    files: dict[str, bytes] = {}
    for kind, name in named:
        files |= registry.files_of(kind, name)
    return {**files, **code.files}


def pin(outputs: Path, code: Code, configs: Iterable[Mapping[str, Any]]) -> Path:
    """Copy the code for jobs with these configs to a folder in outputs/code. Return the folder.

    If an earlier sweep has copied the same code, return its folder. Remove bytecode from the
    folder. Raise UserError if a file was changed, or if the folder contains other code or a link.
    """
    files = needed(
        code, {one for config in configs for one in registry.named_by(config)}
    )
    root = outputs.resolve() / "code"
    make_directory(root)
    root.chmod(0o700)  # another user who could write there could run code as the owner
    digests = {
        name: hashlib.sha256(content).hexdigest() for name, content in files.items()
    }
    folder = child(root, digest_of(digests)[:16])
    if not folder.is_dir():
        _write_files(folder, files)

    for name, content in files.items():
        with suppress(OSError):
            if read_bytes(folder / name) == content:
                continue
        raise UserError(
            f"{sanitize(folder / name)} was changed after the code was copied there. Remove the "
            f"folder {folder.name} once no queued job needs it; the sweep then copies the code "
            "again."
        )
    _check_others(folder, files)

    if code.root != folder:
        earlier = [one for one in revisions(folder) if one != code.revision]
        publish(folder / REVISION, "\n".join([code.revision, *earlier]))
    return folder


def _write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Create a folder with these files atomically. Do nothing if another sweep has created it."""
    made = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}.tmp")
    try:
        for name, content in files.items():
            make_directory((made / name).parent)
            publish(made / name, content, durable=False)
        made.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _check_others(folder: Path, files: Mapping[str, bytes]) -> None:
    """Remove bytecode from `folder`, because it may differ from the source.

    Raise UserError if the folder has a link, or code that is not in `files`.
    """
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        imported = path.is_symlink() or (
            path.is_file() and name.endswith(tuple(all_suffixes()))
        )
        if name in files or not imported:
            continue
        if path.suffix not in BYTECODE_SUFFIXES:
            raise UserError(
                f"{sanitize(path)} is not part of the code that was copied to this folder. Delete "
                "the file, and repeat the command."
            )
        # Delete the bytecode. This does not harm running jobs, because Python compiles it again.
        path.unlink(missing_ok=True)


def revisions(folder: Path) -> list[str]:
    """Return the revisions whose code equals the copy in `folder`, newest first.

    See `Code.revision`.
    """
    return (read_bytes(folder / REVISION) or b"").decode().splitlines()
