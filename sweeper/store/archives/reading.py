"""Where a run's files are read: in its folder, or in the archive that the folder was put in."""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Callable, Collection
from io import FileIO
from pathlib import Path
from typing import IO, Protocol

# O_NONBLOCK: a pipe somebody put in a record's place must not hold the reader up.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Packed(Protocol):
    """An archive; of one that cannot be read OSError tells whoever asks."""

    def names(self, folder: str) -> Collection[str]:
        """The files of a run by their names below its folder."""

    def read(self, folder: str, name: str) -> bytes:
        """The content of one of them; OSError unless it is what was put there."""


_packed: dict[Path, Packed] = {}


def mount(folder: Path, find: Callable[[], Packed | None]) -> None:
    """Read the files of a run from now on where they lie, or from the archive that `find` knows."""
    if folder.is_dir():
        _packed.pop(folder, None)
    elif (archive := find()) is not None:
        _packed[folder] = archive


def opened(path: Path) -> IO[bytes]:
    """A regular file that is no symbolic link, to be read; OSError for anything else."""
    try:
        file = FileIO(os.open(path, _READ))
    except FileNotFoundError:
        archive, folder, name = _place(path)
        if archive is None or name not in archive.names(folder):
            raise
        return io.BytesIO(archive.read(folder, name))
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return file


def present(path: Path) -> bool:
    """Whether there is such a file of a run."""
    archive, folder, name = _place(path)
    return path.is_file() or (archive is not None and name in archive.names(folder))


def entries(folder: Path, *, folders: bool = False) -> list[str]:
    """The names of the files in a folder, or of the folders, none of them a link, in no order."""
    try:
        with os.scandir(folder) as found:
            return [
                entry.name
                for entry in found
                if (entry.is_dir if folders else entry.is_file)(follow_symlinks=False)
            ]
    except FileNotFoundError:
        archive, run, name = _place(folder)
        every = archive.names(run) if archive else ()
        below = [one.removeprefix(f"{name}/") for one in every if one.startswith(f"{name}/")]
        below = list(every) if not name else below
        return list({one.partition("/")[0] for one in below if ("/" in one) is folders})


def _place(path: Path) -> tuple[Packed | None, str, str]:
    """The archive that a path leads into, the run, and the name of the file there."""
    for folder in (path, *path.parents) if _packed else ():
        if folder in _packed:
            return _packed[folder], folder.name, "/".join(path.parts[len(folder.parts) :])
    return None, "", ""
