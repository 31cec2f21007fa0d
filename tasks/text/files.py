"""Lines of text out of untrusted bytes: what is kept, what is repaired, what is skipped and why."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from sweeper.store.errors import UserError, invalid_value

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
    """The counts of a split's lines: `kept` plus all of `skipped` is `total`, exactly.

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


TRAIN_SHARD = re.compile(r"news\.en-\d{5}-of-\d{5}")
TEST_SHARD = re.compile(r"news\.en\.heldout-\d{5}-of-\d{5}")
# A folder's own test split: a file called test.<suffix>, or anything below a folder called test.
OWN_TEST = re.compile(r"(.*/)?test(\.[^/]*|/.*)?")
TEXT_SUFFIXES = ("", ".text", ".tokens", ".txt", ".utf8")
NOT_CONTENT = ("changelog", "copying", "license", "licence", "notice", "readme")


@dataclass(frozen=True)
class TextFiles:
    """Files in reading order, relative to `root`; `test` is empty without a test split."""

    root: Path
    train: tuple[str, ...]
    test: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Every file, in the order of its name."""
        return tuple(sorted((*self.train, *self.test)))

    def bytes(self) -> int:
        return sum((self.root / name).stat().st_size for name in self.names)


def find_files(root: Path) -> TextFiles:
    """The text files at `root`, a file or a folder with sub-folders, sorted by relative name.

    Text is every file with one of TEXT_SUFFIXES and every LM1B shard; hidden files and files about
    the collection (README, LICENSE, ...) are not. Where LM1B's training shards lie beside held-out
    shards these two are train and test and nothing else counts; held-out shards alone are text like
    any other. Raises UserError where there is nothing to read.
    """
    if root.is_file():
        found = TextFiles(root.parent, (root.name,), ())
    elif root.is_dir():
        found = _divided(root)
    else:
        raise invalid_value("data.root", root, "a folder of text files", "name one that exists")
    if not found.bytes():
        raise invalid_value("data.root", root, "files with text in them", "all of them are empty")
    return found


def visible(root: Path) -> list[str]:
    """The relative names of all files below a folder, sorted; nothing hidden is among them."""
    names = []
    for folder, below, files in os.walk(root):  # does not follow links to folders: no loops
        below[:] = [name for name in below if not name.startswith((".", "__MACOSX"))]
        visible = (Path(folder) / name for name in files if not name.startswith("."))
        names += [path.relative_to(root).as_posix() for path in visible]
    return sorted(names)


def _divided(root: Path) -> TextFiles:
    names = [name for name in visible(root) if _is_text(_last(name)) and (root / name).is_file()]
    train = tuple(name for name in names if TRAIN_SHARD.fullmatch(_last(name)))
    test = tuple(name for name in names if TEST_SHARD.fullmatch(_last(name)))
    if not (train and test):
        test = tuple(name for name in names if OWN_TEST.fullmatch(name))
        train = tuple(name for name in names if name not in set(test))
        if not train:
            train, test = test, ()
    if not train:
        suffixes = ", ".join(suffix for suffix in TEXT_SUFFIXES if suffix)
        raise invalid_value(
            "data.root", root, f"files ending in {suffixes} or in nothing", "add some"
        )
    return TextFiles(root, train, test)


def hash_files(files: TextFiles) -> str:
    """sha256 over sorted relative names and contents; UserError for a file gone or no text."""
    total = hashlib.sha256()
    for name in files.names:
        try:
            with (files.root / name).open("rb") as file:
                check_text(files.root / name, file.read(SAMPLE))
                file.seek(0)
                content = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise UserError(
                f"{files.root / name} cannot be read ({error.strerror}); make it readable."
            ) from error
        total.update(f"{content} {name}\n".encode("utf-8", "surrogateescape"))
    return total.hexdigest()


def _is_text(name: str) -> bool:
    if TRAIN_SHARD.fullmatch(name) or TEST_SHARD.fullmatch(name):
        return True
    path = Path(name)
    about = path.stem.lower().startswith(NOT_CONTENT)
    return not about and path.suffix.lower() in TEXT_SUFFIXES


def _last(name: str) -> str:
    return name.rsplit("/", 1)[-1]
