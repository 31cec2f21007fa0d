"""Code that stays as it is while jobs wait: outputs/code/<digest>/, from which they start.

Equal files lie in one folder, whichever sweeps need them. Beside them REVISION says of which commit
they are, and changes.diff what was changed since.
"""

from __future__ import annotations

import hashlib
import secrets
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from sweeper.store import registry
from sweeper.store.code.state import REVISION, Code
from sweeper.store.errors import UserError, shown
from sweeper.store.files import child, make_directory, publish, read_bytes
from sweeper.store.identity import digest_of

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
    for name, content in beside.items():
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
            f"{shown(folder / name)} is not the code that was pinned there; remove the folder "
            f"{folder.name} once no job waits to start from it: it is written again."
        )
