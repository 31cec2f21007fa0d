"""Lines of text out of untrusted bytes: what is kept, what is repaired, what is skipped and why."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from sweeper.store.errors import UserError

Item = TypeVar("Item")

LINE_LIMIT = 1_000_000  # bytes; a longer line is no sentence but a file without line ends
WORD_LIMIT = 20_000  # letters; the time that learning subwords takes grows with their square
_WORD = re.compile(r"\w+|\s+|[^\w\s]+")
REPLACEMENT = "\ufffd"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_CONTROL = {chr(code) for code in range(32)} - set("\t\n\f\r")
SAMPLE = 8192  # bytes of a file that tell whether it is text


@dataclass
class Counts:
    """What became of the lines of a split: `kept` plus all of `skipped` is `total`, exactly.

    `repaired` counts kept lines in which characters were replaced, by reason.
    """

    total: int = 0
    kept: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    repaired: dict[str, int] = field(default_factory=dict)

    def add(self, line: Line) -> bool:
        """Count a line and say whether it is kept."""
        self.total += 1
        if line.skip:
            self.skipped[line.skip] = self.skipped.get(line.skip, 0) + 1
            return False
        self.kept += 1
        for reason in line.repairs:
            self.repaired[reason] = self.repaired.get(reason, 0) + 1
        return True


@dataclass(frozen=True, slots=True)
class Line:
    """One line: its text, or the reason (`empty`, `markup`, `too_long`) why it is skipped."""

    text: str
    skip: str = ""
    repairs: tuple[str, ...] = ()


def read_line(raw: bytes | None) -> Line:
    """Decode one line; None stands for one over LINE_LIMIT. Never raises."""
    if raw is None or len(raw) > LINE_LIMIT:
        return Line("", "too_long")
    repairs: tuple[str, ...] = ()
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text, repairs = raw.decode(errors="replace"), ("invalid_utf8",)
    if "\0" in text:
        text, repairs = text.replace("\0", REPLACEMENT), (*repairs, "nul")
    text = text.strip()
    if not text:
        return Line("", "empty")
    # WikiExtractor frames each article in <doc id=...> and </doc>: marks of the file, not text.
    if text.startswith("<doc ") or text == "</doc>":
        return Line("", "markup")
    if len(text) > WORD_LIMIT and max(len(word[0]) for word in _WORD.finditer(text)) > WORD_LIMIT:
        return Line("", "too_long")
    return Line(text, "", repairs)


def check_text(path: Path, start: bytes) -> None:
    """UserError unless a file that starts so is text: a tenth of its letters may be none."""
    if start.startswith(UTF16_MARKS):
        raise UserError(f"{path} is UTF-16: expected UTF-8; save it as UTF-8.")
    text = start.decode(errors="replace")
    odd = sum(letter == REPLACEMENT or letter in _CONTROL for letter in text)
    if odd > len(text) / 10:
        raise UserError(
            f"{path} is no text in UTF-8: {odd} of its first {len(text)} letters are none; "
            "save it as UTF-8, or take it out of the folder."
        )


def raw_lines_of_file(path: Path) -> Iterator[bytes | None]:
    """The lines of a file without their ends, None for one over LINE_LIMIT; holds one at a time.

    Raises UserError for a file that cannot be read or is UTF-16.
    """
    try:
        with path.open("rb") as file:
            check_text(path, file.read(SAMPLE))
            file.seek(0)
            start = file.read(len(BYTE_ORDER_MARK))
            file.seek(len(start) if start == BYTE_ORDER_MARK else 0)
            while raw := file.readline(LINE_LIMIT + 2):  # room for \r\n
                if raw.endswith(b"\n") or len(raw) <= LINE_LIMIT:
                    yield raw.rstrip(b"\r\n")
                    continue
                while raw and not raw.endswith(b"\n"):
                    raw = file.readline(LINE_LIMIT)
                yield None
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); make it readable.") from error


def batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Lists of `size` items, the last one shorter, in order."""
    iterator = iter(items)
    while batch := list(itertools.islice(iterator, size)):
        yield batch
