"""The data of the task `mnli`. Each row has a premise and a hypothesis."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from tasks.fine_tuning.bag_of_words import BagOfWords, majority_accuracy
from tasks.fine_tuning.data import (
    SPECIAL_TOKENS,
    ExampleData,
    encodings,
    marks_of,
    write,
)
from tasks.mnli.dataset import MultiNLI, Pair


class LabelledPairs(ExampleData):
    """Batches of rows, each with a premise and a hypothesis.

    `labels` (B,) are class numbers. They are indices into LABELS, unless the data set on the hub
    has the classes in another order.
    """

    kind = "mnli"
    published = MultiNLI()
    columns = ("labels",)

    def open(self, folder: Path) -> None:
        super().open(folder)
        if own := self.splits["train"].about.get("labels"):
            self.facts["labels"] = own

    def write_split(
        self,
        folder: Path,
        tokenizer: Tokenizer,
        examples: list[Pair],
        about: Mapping[str, Any],
    ) -> None:
        cls, sep = marks_of(tokenizer)
        room = self.section.sequence_length - SPECIAL_TOKENS
        premises = encodings(tokenizer, [pair.premise for pair in examples])
        hypotheses = encodings(tokenizer, [pair.hypothesis for pair in examples])
        rows, seconds = [], []
        for premise, hypothesis in zip(premises, hypotheses, strict=True):
            first, second = shortened(premise.ids, hypothesis.ids, room)
            rows.append([cls, *first, sep, *second, sep])
            seconds.append(2 + len(first))
        labels = [pair.label for pair in examples]
        write(folder, rows, {"seconds": seconds, "labels": labels}, about)

    def measured_baselines(self, splits: Mapping[str, list[Pair]]) -> dict[str, float]:
        train, test = splits["train"], splits["test"]
        labels, expected = [pair.label for pair in train], [pair.label for pair in test]
        words = BagOfWords([pair.texts() for pair in train], labels)
        return {
            "majority_accuracy": majority_accuracy(labels, expected),
            "bag_of_words_accuracy": words.accuracy(
                [pair.texts() for pair in test], expected
            ),
        }


def shortened(
    first: list[int], second: list[int], room: int
) -> tuple[list[int], list[int]]:
    """Cut tokens off the end of the longer text until both together have at most `room` tokens.

    When both have become equally long, cut the second, then the first, and so on.
    """
    half = room // 2
    if len(second) <= half:
        return first[: room - len(second)], second
    if len(first) <= room - half:
        return first, second[: room - len(first)]
    return first[: room - half], second[:half]
