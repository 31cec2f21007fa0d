"""`python -m tasks.prepare RUN` prepares a run's data, once for all runs that need the same."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweeper.store.cores import cores
from sweeper.store.errors import UserError
from sweeper.store.files import (
    FORMAT,
    child,
    digest_of_file,
    make_directory,
    publish_json,
    publish_with_checksum,
    read_object,
    read_versioned,
)
from sweeper.store.identity import digest_of
from sweeper.store.liveness import held, identity
from sweeper.store.runs import Run
from tasks.process import typed_run

if TYPE_CHECKING:
    from tasks.task import Task

DIGESTS = "digests.json"
SOURCE = "sample"  # the generated text: read while preparing, never after


def prepare(task: Task, outputs: Path) -> Path:
    """Prepare the task's data and return its folder; other processes wait meanwhile."""
    folder = child(outputs / "data", task.data.folder_name())
    if task.data.complete(folder) and ((folder / DIGESTS).is_file() or not folder.is_dir()):
        return folder  # nothing is to be made, and the folder may be one to read only
    make_directory(folder.parent)
    with held(folder):
        if task.data.complete(folder) and not (folder / DIGESTS).is_file():
            task.data.source()  # UserError if the text is gone: then nothing is deleted
            shutil.rmtree(folder)  # nothing tells whether the files are as they were prepared
        task.data.prepare(folder)
        write_digests(folder)
    return folder


def open_data(task: Task, outputs: Path) -> dict[str, Any]:
    """Open the task's data and return what a result says of them; UserError if they changed."""
    folder = prepare(task, outputs)
    facts = {"sha256": check_digests(folder, outputs)} if folder.is_dir() else {}
    return {**task.data.open(folder), **facts}


def write_digests(folder: Path) -> None:
    """Write the digests of a prepared folder, unless it has some; OSError for a link or a pipe."""
    if (folder / DIGESTS).is_file():
        return
    files = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        is_file = path.is_symlink() or not path.is_dir()
        if is_file and name.parts[0] != SOURCE and not name.name.startswith("."):
            files[name.as_posix()] = digest_of_file(path)
    publish_with_checksum(folder / DIGESTS, {"format": FORMAT, "of": folder.name, "files": files})


def check_digests(folder: Path, outputs: Path, *, again: bool = False) -> str:
    """Return the digest of all that was prepared; UserError names what is not as it was then.

    Files are read once on each machine; later, unless `again`, only those are that look changed.
    """
    found = read_versioned(folder / DIGESTS, keys=("of", "files"))
    if found is None or found["of"] != folder.name:
        raise _changed(folder / DIGESTS, folder)
    noted = outputs / "cache" / "verified" / str(identity()["boot"]) / f"{folder.name}.json"
    before = {} if again else read_object(noted) or {}
    now = {}
    for name, digest in found["files"].items():
        try:
            now[name] = [digest, *_looks(folder / name)]
            same = before.get(name) == now[name] or digest_of_file(folder / name) == digest
        except OSError:
            same = False
        if not same:
            raise _changed(folder / name, folder)
    if now != before:
        with suppress(OSError):  # of a folder that may only be read
            make_directory(noted.parent)
            publish_json(noted, now)
    return digest_of(found["files"])


def _looks(path: Path) -> list[int]:
    """Return numbers of a file that differ once it is written to, moved, or touched."""
    stat = path.stat(follow_symlinks=False)
    return [stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]


def _changed(path: Path, folder: Path) -> UserError:
    return UserError(f"{path} is not as it was prepared; delete {folder}, it is prepared again.")


def main(argument: str) -> int:
    """Prepare the data of the run in a directory; return 1 if that fails."""
    from tasks.parse import parse, task_of

    # Tokenizers are learned on all cores; nothing in this process has used the library before.
    os.environ.update(TOKENIZERS_PARALLELISM="true", RAYON_NUM_THREADS=str(cores()))
    try:
        run = Run.open(Path(argument))
        folder = prepare(task_of(parse(run.record()["config"])), run.outputs)
        if folder.is_dir():
            check_digests(folder, run.outputs, again=True)  # for all runs of this sweep
    except (UserError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        os.environ["TOKENIZERS_PARALLELISM"] = "false"  # forks of this process have no threads
    return 0


if __name__ == "__main__":
    sys.exit(main(typed_run("tasks.prepare", __doc__)))
