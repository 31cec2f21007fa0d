"""The text files of a folder: which files are text, which are LM1B's shards, what they hash to."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from sweeper.store.errors import UserError, invalid_value
from tasks.text.lines import SAMPLE, check_text

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
