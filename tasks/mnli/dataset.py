"""The reader of MultiNLI, in the format of its authors, of GLUE or of the Hugging Face hub."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeper.store.errors import UserError, sanitize
from tasks.fine_tuning import dataset
from tasks.fine_tuning.dataset import DataSet, Example, Malformed, Rows
from tasks.synthetic import samples
from tasks.text.source import LINE_LIMIT, raw_lines_of_file

LABELS = ("entailment", "neutral", "contradiction")  # as numbered on the hub
# "-" means that the annotators disagreed, and -1 that the label is not public.
NO_LABEL = ("-", -1)
# The names of the fields for premise, hypothesis and label. The authors' files use the first three
# names, and files exported from the hub use the second three.
NAMES = (("sentence1", "sentence2", "gold_label"), ("premise", "hypothesis", "label"))
# The columns with the annotators' labels. In the authors' .txt files, rows with fewer than five
# annotators lack the last of these columns.
ANNOTATORS = ("label1", "label2", "label3", "label4", "label5")


@dataclass(frozen=True, slots=True)
class Pair(Example):
    """A premise, a hypothesis, and the index of their class.

    The index is into LABELS, or into the class names that `MultiNLI.facts` returns.
    """

    premise: str
    hypothesis: str
    label: int

    def texts(self) -> tuple[str, str]:
        """Return the premise and the hypothesis. A tokenizer may be trained on them."""
        return self.premise, self.hypothesis


class MultiNLI(DataSet[Pair]):
    """The reader of MultiNLI. The test split is the matched development set."""

    title = "MNLI"
    # The patterns match the authors' files, such as multinli_1.0_train.jsonl, and GLUE's train.tsv.
    train = re.compile(r"(multinli_[\d.]+_)?train([._-].*)?\.(jsonl|tsv|txt)")
    test = re.compile(
        r"(multinli_[\d.]+_)?(dev|validation)_matched([._-].*)?\.(jsonl|tsv|txt)"
    )
    expected = "train and dev_matched files ending in .jsonl, .tsv or .txt"
    suffixes = (".jsonl", ".tsv", ".txt")
    columns = ("premise", "hypothesis", "label")
    sample = samples.MNLI
    hub_test = "validation_matched"

    def read_file(self, path: Path) -> Rows:
        """Yield the rows of a .jsonl file, or of a table whose columns are separated by tabs.

        Raises:
            UserError: the table lacks a required column.
        """
        if path.suffix == ".jsonl":
            yield from dataset.json_rows(path)
            return

        lines = enumerate(raw_lines_of_file(path), 1)
        _, first = next(lines, (0, None))
        header = dataset.decoded(first or b"").split("\t")
        if not any(set(names) <= set(header) for names in NAMES):
            expected = " or ".join(", ".join(names) for names in NAMES)
            raise UserError(
                f"{path}: expected the column names {expected} in the first line; add such a line."
            )
        for number, raw in lines:
            yield str(number), table_row(header, raw)

    def example_of(self, row: Any) -> Pair | Malformed:
        """Convert a row to a `Pair`, or return `Malformed` if the row cannot be used.

        In the row, the label may be a name in LABELS or an index.
        """
        if not isinstance(row, Mapping):
            return Malformed("not a row of named fields")
        names = next((names for names in NAMES if names[0] in row), NAMES[1])
        premise, hypothesis, label = (row.get(name) for name in names)
        if not isinstance(premise, str) or not isinstance(hypothesis, str):
            return Malformed("a text is missing")

        if label in NO_LABEL or label is None:
            return Malformed("no gold label")
        number = LABELS.index(label) if label in LABELS else label
        if type(number) is not int or not 0 <= number < len(LABELS):
            return Malformed("unknown label")

        texts = [dataset.printable(text) for text in (premise, hypothesis)]
        mended = texts != [premise, hypothesis]
        premise, hypothesis = (text.strip() for text in texts)
        if not premise or not hypothesis:
            return Malformed("empty text")
        if max(len(premise), len(hypothesis)) > LINE_LIMIT:
            return Malformed("too long")

        identity = row.get("pairID")
        identity = identity if isinstance(identity, str) else ""
        return Pair(premise, hypothesis, number, id=identity, mended=mended)

    def facts(
        self, kept: Mapping[str, Sequence[Pair]], hub: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return {"labels": class names} if the order of the classes differs from LABELS, else {}.

        Raises:
            UserError: the class names differ from those in LABELS or between splits, or a split has
                no row of some class.
        """
        columns = [split.features.get("label") for split in hub.values()]
        orders = {tuple(getattr(column, "names", LABELS)) for column in columns}
        order = next(iter(orders), LABELS)
        names = ", ".join(LABELS)
        remedy = f"name the classes {names}, in the same order in all splits."
        if len(orders) > 1 or {*order} != {*LABELS}:
            found = " and ".join(f"[{', '.join(order)}]" for order in sorted(orders))
            raise UserError(
                f"{self.title}: the column label has the classes {sanitize(found)}; {remedy}"
            )

        for split, pairs in kept.items():
            numbers = {pair.label for pair in pairs}
            missing = [
                name for number, name in enumerate(order) if number not in numbers
            ]
            if missing:
                raise UserError(
                    f"{self.title}: the {split} split has no row labelled "
                    f"{' or '.join(missing)}; add such rows, or {remedy}"
                )
        return {} if order == LABELS else {"labels": list(order)}


def table_row(header: list[str], raw: bytes | None) -> dict[str, str] | Malformed:
    """Convert a line of a table to a dict, or return `Malformed` if the line cannot be used.

    Quotation marks are ordinary characters, as in BERT's code.

    Args:
        header: the names of the columns.
        raw: the line, or None if it is too long.
    """
    if raw is None:
        return Malformed("too long")
    cells = dataset.decoded(raw).split("\t")
    row = dict(zip(header, cells, strict=False))
    if len(cells) != len(header):
        # A missing or an extra tab moves texts and labels into the wrong columns. Accept a row
        # with missing cells only if all of these are annotators' labels, and if its pairID begins
        # with its promptID, which shows that no cell has moved.
        absent, prompt = header[len(cells) :], row.get("promptID")
        short = absent and set(absent) <= set(ANNOTATORS)
        if not short or not prompt or not row.get("pairID", "").startswith(prompt):
            return Malformed("wrong number of columns")
    return row
