"""The reader of SQuAD v1.1 and of data sets in its format."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sweeper.store.errors import UserError
from tasks.fine_tuning import dataset
from tasks.fine_tuning.dataset import DataSet, Malformed, Rows
from tasks.squad.answer_key import Question
from tasks.synthetic import samples
from tasks.text.source import BYTE_ORDER_MARK, LINE_LIMIT


class SQuAD(DataSet[Question]):
    """The reader of SQuAD v1.1 and of data sets in its format.

    SQuADShifts can replace the training set. XQuAD, a part of SQuAD's dev set, can replace the dev
    set.
    """

    title = "SQuAD v1.1"
    train = re.compile(r"train([._-].*)?\.jsonl?|.+_v1\.0\.json")
    test = re.compile(r"dev([._-].*)?\.jsonl?|xquad\.en\.json")
    expected = "train*.json and dev*.json files (or SQuADShifts' *_v1.0.json and xquad.en.json)"
    suffixes = (".json", ".jsonl")
    columns = ("id", "question", "context", "answers")
    sample = samples.SQUAD
    hub_test = "validation"

    def read_file(self, path: Path) -> Rows:
        """Yield the rows of a file. Each row is a dict with a question and its context.

        The file must have SQuAD's format, or a JSON object per line, as `datasets` exports it.

        Raises:
            UserError: the file has neither format.
        """
        if _has_lines(path):
            yield from dataset.json_rows(path)
            return

        articles = _list_of(_json_of(path), "data")
        if articles is None:
            raise UserError(
                f'{path} is not a SQuAD v1.1 file: expected a list under "data"; replace the file.'
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
                    if isinstance(row, Mapping):
                        row = {**row, "context": paragraph.get("context")}
                    yield f"{place}.qas[{q}]", row

    def example_of(self, row: Any) -> Question | Malformed:
        if not isinstance(row, Mapping):
            return Malformed("not a question")
        identity, given_context, given_question = (
            row.get(name) for name in ("id", "context", "question")
        )
        if not isinstance(identity, str) or not identity:
            return Malformed("no id")
        if not isinstance(given_context, str) or not isinstance(given_question, str):
            return Malformed("a text is missing")

        context = dataset.printable(given_context)
        question = dataset.printable(given_question)
        mended = (context, question) != (given_context, given_question)
        question = question.strip()
        if not context.strip() or not question:
            return Malformed("empty text")
        if max(len(context), len(question)) > LINE_LIMIT:
            return Malformed("too long")

        answers = _answers_of(row.get("answers"))
        if not answers:
            return Malformed("no answer")
        start, text = located_answer(context, answers)
        texts = tuple(text for text, _ in answers)
        return Question(
            question, context, texts, start, text, id=identity, mended=mended
        )

    def training_example(self, row: Any) -> Question | Malformed:
        found = self.example_of(row)
        if isinstance(found, Question) and found.start < 0:
            return Malformed("no answer is at its answer_start")
        return found


def _json_of(path: Path) -> Any:
    """Return the content of a JSON file. Raise UserError if the file is not valid JSON."""
    raw = path.read_bytes().removeprefix(BYTE_ORDER_MARK)
    try:
        return json.loads(dataset.decoded(raw))
    except (ValueError, RecursionError) as error:
        why = " ".join(str(error).split())
        raise UserError(
            f"{path} is not valid JSON ({why}); copy the file again."
        ) from error


def _list_of(value: Any, key: str) -> list[Any] | None:
    found = value.get(key) if isinstance(value, Mapping) else None
    return found if isinstance(found, list) else None


def _has_lines(path: Path) -> bool:
    """Return whether the first line of a file is a JSON object with a context."""
    with suppress(OSError, ValueError, RecursionError), path.open("rb") as file:
        first = json.loads(dataset.decoded(file.readline(LINE_LIMIT)))
        return isinstance(first, Mapping) and "context" in first
    return False


def _answers_of(answers: Any) -> list[tuple[str, Any]]:
    """Return pairs of a gold answer and its answer_start, its position in the context.

    Args:
        answers: in SQuAD's files, a list of dicts with the keys `text` and `answer_start`. On the
            hub, a dict with the lists `text` and `answer_start`.
    """
    if isinstance(answers, Mapping):
        texts, starts = _list_of(answers, "text"), _list_of(answers, "answer_start")
        pairs: Iterable[tuple[Any, Any]] = zip(texts or (), starts or (), strict=False)
    else:
        entries = answers if isinstance(answers, list) else []
        maps = [entry for entry in entries if isinstance(entry, Mapping)]
        pairs = ((entry.get("text"), entry.get("answer_start")) for entry in maps)
    return [
        (dataset.printable(text), start)
        for text, start in pairs
        if isinstance(text, str)
    ]


def located_answer(context: str, answers: Sequence[tuple[str, Any]]) -> tuple[int, str]:
    """Return the start and the text of the first answer that is at its answer_start in `context`.

    The start is in characters. Surrounding spaces of the answer are removed. If no answer is at its
    answer_start, return -1 and "".

    Args:
        answers: pairs of an answer's text and its answer_start.
    """
    for text, start in answers:
        bare = text.strip()
        is_position = type(start) is int and start >= 0
        if bare and is_position and context.startswith(text, start):
            return start + text.index(bare), bare
    return -1, ""
