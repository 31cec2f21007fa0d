"""The reader of SQuAD v1.1 and of data sets in its format."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sweeper.store.errors import UserError
from tasks.fine_tuning import dataset
from tasks.fine_tuning.dataset import DataSet, Malformed
from tasks.squad.answer_key import Question
from tasks.synthetic import samples
from tasks.text.source import LINE_LIMIT, raw_lines_of_file


class SQuAD(DataSet[Question]):
    """The reader of SQuAD v1.1 and of data sets in its format.

    SQuADShifts can be used as the training set. XQuAD is a part of SQuAD's dev set, and can be used
    instead of it.
    """

    title = "SQuAD v1.1"
    train = re.compile(r"train([._-].*)?\.jsonl?|.+_v1\.0\.json")
    test = re.compile(r"dev([._-].*)?\.jsonl?|xquad\.en\.json")
    expected = "train*.json and dev*.json files (or SQuADShifts' *_v1.0.json and xquad.en.json)"
    suffixes = (".json", ".jsonl")
    columns = ("id", "question", "context", "answers")
    sample = samples.SQUAD
    hub_test = "validation"

    def read_file(self, path: Path) -> Iterator[tuple[str, Question | Malformed]]:
        """Yield (place in the file, `Question`) for each row of a file.

        For a row that cannot be used, yield `Malformed` instead of the `Question`. The file has the
        format of SQuAD, or one question per line, as `datasets` exports it.

        Raises:
            UserError: the file has neither format.
        """
        if _has_lines(path):
            for number, raw in enumerate(raw_lines_of_file(path), 1):
                row = dataset.row_of(raw)
                broken = isinstance(row, Malformed)
                yield str(number), row if broken else self.example_of(row)
            return

        articles = _list_of(dataset.load_file(path), "data")
        if articles is None:
            raise UserError(
                f'{path} is not a SQuAD v1.1 file: expected a list under "data"; name another file.'
            )

        for a, article in enumerate(articles):
            paragraphs = _list_of(article, "paragraphs")
            if paragraphs is None:
                yield f"data[{a}]", Malformed("an article without paragraphs")
            for p, paragraph in enumerate(paragraphs or ()):
                place = f"data[{a}].paragraphs[{p}]"
                rows = _list_of(paragraph, "qas")
                if rows is None:
                    yield place, Malformed("a paragraph without questions")
                for q, row in enumerate(rows or ()):
                    found = question_of(row, paragraph.get("context"))
                    yield f"{place}.qas[{q}]", found

    def example_of(self, row: Any) -> Question | Malformed:
        if not isinstance(row, Mapping):
            return Malformed("not a question")
        answers = row.get("answers")
        if isinstance(answers, Mapping):
            texts, starts = _list_of(answers, "text"), _list_of(answers, "answer_start")
            if texts and starts and len(texts) == len(starts):
                pairs = zip(texts, starts, strict=True)
                answers = [
                    {"text": text, "answer_start": start} for text, start in pairs
                ]
        return question_of({**row, "answers": answers}, row.get("context"))

    def trainable(self, example: Question) -> Question | Malformed:
        found = example.start >= 0
        return example if found else Malformed("no answer is at its answer_start")

    def group(self, example: Question) -> str:
        return example.context


def _list_of(value: Any, key: str) -> list[Any] | None:
    found = value.get(key) if isinstance(value, Mapping) else None
    return found if isinstance(found, list) else None


def _has_lines(path: Path) -> bool:
    """Return whether the first line of a file is a JSON object with a context."""
    with suppress(OSError, ValueError, RecursionError), path.open("rb") as file:
        first = json.loads(dataset.decoded(file.readline(LINE_LIMIT)))
        return isinstance(first, Mapping) and "context" in first
    return False


def question_of(row: Any, context: Any) -> Question | Malformed:
    """Convert an entry of "qas" to a `Question`. Return `Malformed` if it cannot be used.

    Args:
        row: the entry.
        context: the paragraph that the question is about.
    """
    if not isinstance(row, Mapping):
        return Malformed("not a question")
    identity, question, answers = (
        row.get(name) for name in ("id", "question", "answers")
    )
    if not isinstance(identity, str) or not identity:
        return Malformed("no id")
    if not isinstance(context, str) or not isinstance(question, str):
        return Malformed("a text is missing")

    mended = dataset.mended(context, question)
    context = dataset.printable(context)
    question = dataset.printable(question).strip()
    if not context.strip() or not question:
        return Malformed("empty text")
    if max(len(context), len(question)) > LINE_LIMIT:
        return Malformed("too long")

    entries = answers if isinstance(answers, list) else []
    maps = (a for a in entries if isinstance(a, Mapping))
    given = [a for a in maps if isinstance(a.get("text"), str)]
    if not given:
        return Malformed("no answer")
    texts = tuple(dataset.printable(a["text"]) for a in given)

    start, text = located_answer(context, texts, [a.get("answer_start") for a in given])
    return Question(question, context, texts, start, text, id=identity, mended=mended)


def located_answer(
    context: str, texts: Sequence[str], starts: Sequence[Any]
) -> tuple[int, str]:
    """Find the first answer whose text occurs in `context` at the position that `starts` gives.

    Return its start, in characters, and its text, both without surrounding spaces. If there is no
    such answer, return -1 and "".
    """
    for text, start in zip(texts, starts, strict=True):
        bare = text.strip()
        is_position = type(start) is int and start >= 0
        if bare and is_position and context.startswith(text, start):
            return start + text.index(bare), bare
    return -1, ""
