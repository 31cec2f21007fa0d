"""Datasets on the Hugging Face hub: their splits, and the lines of the column `text`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sweeper.store.errors import UserError, invalid_value

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
    """The lines of each row of a split, as bytes for `tasks.text.lines.read_line`."""
    for batch in split.iter(batch_size=1000):
        for text in batch[COLUMN]:
            yield (text or "").encode("utf-8", "surrogatepass").split(b"\n")


def name_of(hub: Mapping[str, Any]) -> str:
    """path[/name]@revision."""
    name = f"/{hub['name']}" if hub.get("name") else ""
    return f"{hub['path']}{name}@{hub.get('revision') or 'main'}"
