"""JSON from untrusted files: stricter than Python's parser, and one error for all that is wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from sweeper.store.errors import UserError
from tasks.text.lines import BYTE_ORDER_MARK, REPLACEMENT, UTF16_MARKS

# Half a character (JSON can spell one, UTF-8 cannot hold it) and NUL.
UNPRINTABLE = re.compile("[\ud800-\udfff\0]")


def load(text: str) -> Any:
    """Return the value. Raises ValueError for anything that is not one plain JSON value.

    Also for NaN and infinities, for a key that comes twice, and for nesting without end.
    """
    try:
        return json.loads(text, parse_constant=_refuse, object_pairs_hook=_object)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def load_file(path: Path, read: Callable[[str], Any] = load) -> Any:
    """Return what `read` makes of a whole file.

    Raises UserError if it cannot be read or is not JSON.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); make it readable.") from error
    if raw.startswith(UTF16_MARKS):
        raise UserError(f"{path} is UTF-16: expected UTF-8; save it as UTF-8.")
    try:
        return read(decoded(raw.removeprefix(BYTE_ORDER_MARK)))
    except (ValueError, RecursionError) as error:
        why = " ".join(str(error).split())
        raise UserError(f"{path} is not JSON ({why}); bring the whole file again.") from error


def decoded(raw: bytes) -> str:
    """The text of bytes; what is not UTF-8 becomes half a character, for `printable` to find."""
    return raw.decode(errors="surrogateescape")


def printable(text: str) -> str:
    """The text with what no file and no tokenizer takes replaced, character for character."""
    return UNPRINTABLE.sub(REPLACEMENT, text)


def mended(*texts: str) -> tuple[str, ...]:
    """What is noted about a row with these texts: whether `printable` replaces any of it."""
    return ("characters replaced",) if any(map(UNPRINTABLE.search, texts)) else ()


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key comes twice in one object")
    return value
