"""Digests of prepared data, file by file: written when the data are made, compared when opened."""

from __future__ import annotations

from pathlib import Path

from sweeper.store.errors import UserError
from sweeper.store.files import FORMAT, digest_of_file, publish_with_checksum, read_versioned
from sweeper.store.identity import digest_of

DIGESTS = "digests.json"
SOURCE = "sample"  # the generated text: read while preparing, never after


def write_digests(folder: Path) -> None:
    """Write down what lies in a prepared folder, once.

    What an earlier version has prepared has no digests: it is taken as it lies. OSError for a link
    or a pipe among the files.
    """
    if not (folder / DIGESTS).is_file():
        every = [
            path for path in sorted(folder.rglob("*")) if path.is_symlink() or not path.is_dir()
        ]
        found = [path.relative_to(folder) for path in every]
        kept = [path for path in found if path.parts[0] != SOURCE and path.name[0] != "."]
        files = {path.as_posix(): digest_of_file(folder / path) for path in kept}
        publish_with_checksum(
            folder / DIGESTS, {"format": FORMAT, "of": folder.name, "files": files}
        )


def check_digests(folder: Path) -> str:
    """Return the digest of all that was prepared; UserError names what is not as it was then."""
    found = read_versioned(folder / DIGESTS, keys=("of", "files"))
    if found is None or found["of"] != folder.name:
        raise _changed(folder / DIGESTS, folder)
    for name, digest in found["files"].items():
        try:
            same = digest_of_file(folder / name) == digest
        except OSError:
            same = False
        if not same:
            raise _changed(folder / name, folder)
    return digest_of(found["files"])


def _changed(path: Path, folder: Path) -> UserError:
    return UserError(f"{path} is not as it was prepared; delete {folder}, it is prepared again.")
