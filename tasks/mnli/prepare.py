"""The prepared data of MNLI: pairs as pieces, their labels, and what words alone can tell."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweeper.store.files import make_directory
from tasks.fine_tuning.bag_of_words import BagOfWords, Bags, majority_accuracy
from tasks.fine_tuning.dataset import Examples
from tasks.fine_tuning.prepare import SPLITS, ExampleSettings, encodings, tokenizer_for
from tasks.fine_tuning.sequences import ABOUT, FRAME, Marks, write
from tasks.mnli.dataset import MultiNLI, Pair

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def prepare(folder: Path, data: Mapping[str, Any], settings: ExampleSettings) -> None:
    """Make whatever `folder` lacks; the caller keeps other processes out of it.

    Raises UserError where the data are missing, unusable, or not what the plan was made from.
    """
    if all((folder / split / ABOUT).exists() for split in SPLITS):
        return
    make_directory(folder)
    examples = MultiNLI().load(data, folder / "sample")
    texts = (pair.texts() for pair in examples.splits["train"])
    tokenizer = tokenizer_for(folder, texts, settings)
    marks = Marks.of(tokenizer)
    about = {**examples.rows, "validation": {}}
    about["test"] = {**about["test"], "baselines": _baselines(examples)}
    for split in SPLITS:
        pairs = examples.splits[split]
        cut = _encoded(tokenizer, pairs, settings.sequence_length - FRAME)
        columns = {
            "seconds": [2 + len(premise) for premise, _ in cut],
            "labels": [pair.label for pair in pairs],
        }
        write(folder / split, [marks.row(*texts) for texts in cut], columns, about[split])


def shortened(first: list[int], second: list[int], room: int) -> tuple[list[int], list[int]]:
    """Take pieces off the end of the longer text, the second of equals, until both have room."""
    half = room // 2
    if len(second) <= half:
        return first[: room - len(second)], second
    if len(first) <= room - half:
        return first, second[: room - len(first)]
    return first[: room - half], second[:half]


def _encoded(
    tokenizer: Tokenizer, pairs: list[Pair], room: int
) -> list[tuple[list[int], list[int]]]:
    cut = []
    premises = encodings(tokenizer, [pair.premise for pair in pairs])
    hypotheses = encodings(tokenizer, [pair.hypothesis for pair in pairs])
    for premise, hypothesis in zip(premises, hypotheses, strict=True):
        cut.append(shortened(premise.ids, hypothesis.ids, room))
    return cut


def _baselines(examples: Examples[Pair]) -> dict[str, float]:
    train, test = examples.splits["train"], examples.splits["test"]
    labels, expected = [pair.label for pair in train], [pair.label for pair in test]
    words = BagOfWords(Bags.of([pair.texts() for pair in train]), labels)
    return {
        "majority_accuracy": majority_accuracy(labels, expected),
        "bag_of_words_accuracy": words.accuracy(Bags.of([pair.texts() for pair in test]), expected),
    }
