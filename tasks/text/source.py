"""Datasets on the Hugging Face hub: their splits, and the lines of the column `text`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from sweeper.store.errors import UserError, invalid_value
from tasks.synthetic.families import World
from tasks.synthetic.samples import Sample
from tasks.text import files
from tasks.text.files import raw_lines_of_file

COLUMN = "text"


def load_splits(hub: Mapping[str, Any], columns: Sequence[str] = (COLUMN,)) -> dict[str, Any]:
    """The dataset's splits by name; `train` is always among them, and each has these columns.

    hub: path, name and revision, as `datasets.load_dataset` takes them. Raises UserError for a
    dataset that cannot be loaded or has another shape.
    """
    name = name_of(hub)
    import datasets  # takes seconds: only where the text is on the hub

    try:
        splits = datasets.load_dataset(
            hub["path"], name=hub.get("name"), revision=hub.get("revision")
        )
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        cause = next(iter(str(error).splitlines()), type(error).__name__)
        raise UserError(
            f"data.hub={name} cannot be loaded ({cause}); check data.hub and the connection."
        ) from error
    if "train" not in splits:
        raise invalid_value("data.hub", name, "a dataset with a split train", "choose another")
    for split in splits.values():
        if missing := [column for column in columns if column not in split.column_names]:
            raise invalid_value(
                "data.hub", name, f"a column {missing[0]}", "choose another dataset"
            )
    return dict(splits)


def raw_lines_of_rows(split: Any) -> Iterator[list[bytes]]:
    """The lines of each row of a split, as bytes for `tasks.text.files.read_line`."""
    for batch in split.iter(batch_size=1000):
        for text in batch[COLUMN]:
            yield (text or "").encode("utf-8", "surrogatepass").split(b"\n")


def name_of(hub: Mapping[str, Any]) -> str:
    """path[/name]@revision."""
    name = f"/{hub['name']}" if hub.get("name") else ""
    return f"{hub['path']}{name}@{hub.get('revision') or 'main'}"


Text = Iterable[bytes | None]
"""The raw lines of a file, or of a row on the hub."""
Texts = Callable[[], Iterator[Text]]
"""Reads all texts of a split, in a fixed order."""


class Source:
    """The text that the `data` section of a config names; `sample` is the generated one.

    Every method raises UserError for text that is missing.
    """

    sample: ClassVar[Sample]

    def files(self, root: Path) -> files.TextFiles:
        return files.find_files(root)

    def digest(self, data: Mapping[str, Any]) -> str:
        """Return a hash of all files or of the generator, or the data set and revision.

        Nothing is written, and the hub is not contacted.
        """
        if data["source"] == "hub":
            return f"hub:{name_of(data['hub'])}"
        if data["source"] == "sample":
            return self.sample.digest(data["sentences"], World.of(data))
        return f"sha256:{files.hash_files(self.files(_local(data)))}"

    def describe(self, data: Mapping[str, Any]) -> str:
        """The same in a few words, for a person."""
        if data["source"] == "hub":
            return f"{name_of(data['hub'])} on the Hugging Face hub"
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
            splits = load_splits(data["hub"])
            rows = {name: partial(raw_lines_of_rows, split) for name, split in splits.items()}
            return name_of(data["hub"]), rows["train"], rows.get("test")
        root = self.root(data, folder)
        found = self.files(root)
        test = partial(_read, found.root, found.test) if found.test else None
        return str(root), partial(_read, found.root, found.train), test


def _local(data: Mapping[str, Any]) -> Path:
    return Path(data["root"]).expanduser()


def _read(root: Path, names: tuple[str, ...]) -> Iterator[Text]:
    for name in names:
        yield raw_lines_of_file(root / name)
