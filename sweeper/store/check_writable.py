"""Whether the outputs folder can be written, asked before anything is started."""

from __future__ import annotations

import errno
import secrets
from contextlib import suppress
from pathlib import Path

from sweeper.store.errors import UserError, shown, wrong
from sweeper.store.files import make_directory, publish

FULL = (errno.ENOSPC, errno.EDQUOT)
_REASONS = {
    errno.ENOTDIR: ("a folder, but {} is a file", "remove the file"),
    errno.EEXIST: ("a folder, but {} is a file", "remove the file"),
    errno.ENOSPC: ("free space, but the disk is full (df, df -i)", "free some space"),
    errno.EDQUOT: ("free space, but the quota is used up", "free some space"),
    errno.EROFS: ("a folder that can be written, but it is read-only", "mount it for writing"),
    errno.EACCES: ("a folder that you may write to", "change its permissions"),
}


def check_writable(outputs: Path) -> None:
    """Makes `outputs` if need be and tries every operation the store rests on; else UserError."""
    name = f".probe.{secrets.token_hex(8)}"
    paths = [outputs / f"{name}.renamed.tmp", outputs / f"{name}.linked.tmp"]
    try:
        make_directory(outputs.resolve())
        publish(paths[0], "probe")
        publish(paths[1], "probe", replace=False)
    except OSError as error:
        raise _explained(outputs, error) from error
    finally:
        for path in paths:
            with suppress(OSError):
                path.unlink()


def _explained(outputs: Path, error: OSError) -> UserError:
    other = f"to make, rename and hard-link files there, but: {error.strerror}", "repair that"
    expected, remedy = _REASONS.get(error.errno or 0, other)
    expected = expected.replace("{}", shown(error.filename))
    return wrong("outputs", outputs, expected, f"{remedy} or choose another folder")
