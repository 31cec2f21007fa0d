"""A corpus: lines of text in the splits train, validation and test, from whichever source."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeper.store.errors import UserError, wrong
from tasks.synthetic import lm1b
from tasks.synthetic.families import World
from tasks.text import files, hub
from tasks.text.lines import Counts, Line, raw_lines_of_file, read_line

SOURCES = ("sample", "local", "hub")

RawLines = Callable[[], Iterator[bytes | None]]


@dataclass(frozen=True)
class Corpus:
    """Text in three splits that share no line of `train`.

    Which split a line belongs to follows from its text alone (a checksum modulo 100), so equal
    lines are always in one split: 1 % are validation, and 2 % are test where the source has no test
    split of its own. Lines that are skipped count as train's.

    Of text that is to be read on from line to line the first of so many `together` decides for all;
    a line that is found twice may then be in two splits.
    """

    name: str
    train: RawLines
    test: RawLines | None
    together: int = 1

    def lines(self, split: str, counts: Counts | None = None) -> Iterator[str]:
        """The kept lines of a split in a fixed order; `counts` is filled while reading.

        Raises UserError where a file cannot be read or the split turns out empty.
        """
        counts = Counts() if counts is None else counts
        own = split == "test" and self.test is not None
        source = self.test if own and self.test is not None else self.train
        found = ""
        for number, raw in enumerate(source()):
            line = read_line(raw)
            if number % self.together == 0:
                found = self._split_of(line)
            if (own or found == split) and counts.add(line):
                yield line.text
        if not counts.kept:
            skipped = f", {counts.total} lines were skipped" if counts.total else ""
            raise UserError(
                f"{self.name} has no text in the split {split}{skipped}; give it more text."
            )

    def _split_of(self, line: Line) -> str:
        if line.skip:
            return "train"
        place = zlib.crc32(line.text.encode()) % 100
        if place == 0:
            return "validation"
        return "test" if self.test is None and place <= 2 else "train"


def open_corpus(data: Mapping[str, Any], folder: Path) -> Corpus:
    """The corpus that the `data` part of a config names.

    folder: where the generated sample is written if it is not there yet (source=sample only).
    Raises UserError for a source that is unknown, missing or empty.
    """
    if data["source"] == "hub":
        splits = hub.load_splits(data["hub"])
        readers = {
            name: functools.partial(hub.raw_lines_of_split, split) for name, split in splits.items()
        }
        return Corpus(hub.name_of(data["hub"]), readers["train"], readers.get("test"))
    if data["source"] == "sample":
        root = lm1b.write_sample(folder, data["sentences"], World.of(data))
    else:
        root = _local_root(data)
    found = files.find_files(root)
    return Corpus(
        str(root),
        functools.partial(_read_all, found.root, found.train),
        functools.partial(_read_all, found.root, found.test) if found.test else None,
    )


def digest(data: Mapping[str, Any]) -> str:
    """What the text is: a hash of the files, the sample's generator, or the dataset and revision.

    Reads every byte of a local corpus and writes nothing. Raises UserError as `open_corpus` does,
    except that a dataset on the hub is not contacted.
    """
    if data["source"] == "hub":
        return f"hub:{hub.name_of(data['hub'])}"
    if data["source"] == "sample":
        return f"sample:{lm1b.generator_hash(data['sentences'], World.of(data))[:16]}"
    return f"sha256:{files.hash_files(_with_content(_local_root(data)))}"


def describe(data: Mapping[str, Any]) -> str:
    """The source in a few words, for a person. Raises UserError as `digest` does."""
    if data["source"] == "hub":
        return f"{hub.name_of(data['hub'])} on the Hugging Face hub"
    if data["source"] == "sample":
        return f"generated sample of {data['sentences']:,} sentences ({World.of(data)})"
    found = _with_content(_local_root(data))
    count = len(found.names)
    size = f"{count} text file{'s' * (count > 1)}, {found.bytes() / 1e6:,.1f} MB"
    return f"{size}, folder {found.root.name}"


def _local_root(data: Mapping[str, Any]) -> Path:
    if data["source"] != "local":
        raise wrong("data.source", data["source"], "one of " + ", ".join(SOURCES), "choose one")
    if not data["root"]:
        raise wrong("data.root", data["root"], "a folder of text files", "give data.root=<folder>")
    return Path(data["root"]).expanduser()


def _with_content(root: Path) -> files.TextFiles:
    found = files.find_files(root)
    if not found.bytes():
        raise wrong("data.root", root, "files with text in them", "all of them are empty")
    return found


def _read_all(root: Path, names: tuple[str, ...]) -> Iterator[bytes | None]:
    for name in names:
        yield from raw_lines_of_file(root / name)
