"""Where text comes from: generated, files of a folder, or a data set on the Hugging Face hub."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from tasks.synthetic.families import World
from tasks.synthetic.sample import Sample
from tasks.text import files, hub
from tasks.text.lines import raw_lines_of_file

Text = Iterable[bytes | None]
"""The raw lines of a file, or of a row on the hub."""
Texts = Callable[[], Iterator[Text]]
"""Reads all texts of a split, in a fixed order."""


class Source:
    """What the `data` section of a config names, given as plain data; `sample` is its own text.

    Every method raises UserError for text that is missing.
    """

    sample: ClassVar[Sample]

    def files(self, root: Path) -> files.TextFiles:
        return files.find_files(root)

    def digest(self, data: Mapping[str, Any]) -> str:
        """What the text is: a hash of all files, of the generator, or the data set and revision.

        Nothing is written, and the hub is not contacted.
        """
        if data["source"] == "hub":
            return f"hub:{hub.name_of(data['hub'])}"
        if data["source"] == "sample":
            return self.sample.digest(data["sentences"], World.of(data))
        return f"sha256:{files.hash_files(self.files(_local(data)))}"

    def describe(self, data: Mapping[str, Any]) -> str:
        """The same in a few words, for a person."""
        if data["source"] == "hub":
            return f"{hub.name_of(data['hub'])} on the Hugging Face hub"
        if data["source"] == "sample":
            return self.sample.described(data["sentences"], World.of(data))
        found = self.files(_local(data))
        count = len(found.names)
        size = f"{count} text file{'s' * (count > 1)}, {found.bytes() / 1e6:,.1f} MB"
        return f"{size}, folder {found.root.name}"

    def root(self, data: Mapping[str, Any], folder: Path) -> Path:
        """The folder of text that is not on the hub; the sample is written into `folder`."""
        if data["source"] == "local":
            return _local(data)
        self.sample.write(folder, data["sentences"], World.of(data))
        return folder

    def texts(self, data: Mapping[str, Any], folder: Path) -> tuple[str, Texts, Texts | None]:
        """Its name, its texts to train on, and those of its own test split, None without one."""
        if data["source"] == "hub":
            splits = hub.load_splits(data["hub"])
            rows = {name: partial(hub.raw_lines_of_rows, split) for name, split in splits.items()}
            return hub.name_of(data["hub"]), rows["train"], rows.get("test")
        root = self.root(data, folder)
        found = self.files(root)
        test = partial(_read, found.root, found.test) if found.test else None
        return str(root), partial(_read, found.root, found.train), test


def _local(data: Mapping[str, Any]) -> Path:
    return Path(data["root"]).expanduser()


def _read(root: Path, names: tuple[str, ...]) -> Iterator[Text]:
    for name in names:
        yield raw_lines_of_file(root / name)
