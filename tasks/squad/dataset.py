"""Questions about paragraphs: SQuAD v1.1 as its authors and the Hub write it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeper.store.errors import UserError
from tasks.fine_tuning import dataset as strict_json
from tasks.fine_tuning.dataset import DataSet, Example, Malformed
from tasks.synthetic import samples
from tasks.text.files import LINE_LIMIT, REPLACEMENT


@dataclass(frozen=True, slots=True)
class Question(Example):
    """A question, the paragraph it is about, and what people answered.

    start, text: an answer and where it stands in the context, in characters; -1 where none does.
    answers: all of them, as they are scored against, wherever they stand.
    """

    question: str
    context: str
    answers: tuple[str, ...]
    start: int
    text: str

    def texts(self) -> tuple[str, str]:
        """Return the texts that a tokenizer may be trained on."""
        return self.context, self.question


class SQuAD(DataSet[Question]):
    """SQuAD v1.1, and sets in its format: SQuADShifts to train on, XQuAD's part of the dev set."""

    title = "SQuAD v1.1"
    train = re.compile(r"train([._-].*)?\.json|.+_v1\.0\.json")
    test = re.compile(r"dev([._-].*)?\.json|xquad\.en\.json")
    expected = "train*.json and dev*.json files (also SQuADShifts' *_v1.0.json and xquad.en.json)"
    suffixes = (".json",)
    columns = ("id", "question", "context", "answers")
    sample = samples.SQUAD
    hub_test = "validation"

    def read_file(self, path: Path) -> Iterator[tuple[str, Question | Malformed]]:
        """Yield the questions of a file, by their place in it.

        Raises UserError for a file that cannot be read, is not JSON, or is no SQuAD file.
        """
        for a, article in enumerate(articles(path)):
            paragraphs = article.get("paragraphs") if isinstance(article, dict) else None
            if not isinstance(paragraphs, list):
                yield f"data[{a}]", Malformed("an article without paragraphs")
                continue
            for p, paragraph in enumerate(paragraphs):
                yield from _paragraph(f"data[{a}].paragraphs[{p}]", paragraph)

    def example_of(self, row: Mapping[str, Any]) -> Question | Malformed:
        answers = row["answers"]
        if isinstance(answers, Mapping):
            texts, starts = answers.get("text"), answers.get("answer_start")
            if isinstance(texts, list) and isinstance(starts, list) and len(texts) == len(starts):
                pairs = zip(texts, starts, strict=True)
                answers = [{"text": text, "answer_start": start} for text, start in pairs]
        return question_of({**row, "answers": answers}, row["context"])

    def trainable(self, example: Question) -> Question | Malformed:
        found = example.start >= 0
        return example if found else Malformed("no answer stands in the context")

    def group(self, example: Question) -> str:
        return example.context


def articles(path: Path) -> list[Any]:
    """Return what an official file has under "data". Raises UserError if that is no list."""
    value = strict_json.load_file(path)
    found = value.get("data") if isinstance(value, dict) else None
    if not isinstance(found, list):
        raise UserError(f'{path} has no list under "data": expected SQuAD v1.1; name another file.')
    return found


def question_of(row: Any, context: Any) -> Question | Malformed:
    """Return the question of an entry of "qas" about a context."""
    if not isinstance(row, Mapping):
        return Malformed("not a question")
    identity, question, answers = (row.get(name) for name in ("id", "question", "answers"))
    if not isinstance(identity, str) or not identity:
        return Malformed("no id")
    if not isinstance(context, str) or not isinstance(question, str):
        return Malformed("a text is missing")
    mended = strict_json.mended(context, question)
    context, question = strict_json.printable(context), strict_json.printable(question).strip()
    if not context.strip() or not question:
        return Malformed("empty text")
    if max(len(context), len(question)) > LINE_LIMIT:
        return Malformed("too long")
    entries = [a for a in answers if isinstance(a, Mapping)] if isinstance(answers, list) else []
    given = [a for a in entries if isinstance(a.get("text"), str)]
    if not given:
        return Malformed("no answer")
    start, text, found = _first_standing(context, given)
    return Question(
        question,
        context,
        tuple(strict_json.printable(a["text"]) for a in given),
        start,
        text,
        id=identity,
        mended=mended + found,
    )


def _paragraph(place: str, paragraph: Any) -> Iterator[tuple[str, Question | Malformed]]:
    questions = paragraph.get("qas") if isinstance(paragraph, dict) else None
    if not isinstance(questions, list):
        yield place, Malformed("a paragraph without questions")
        return
    for number, row in enumerate(questions):
        yield f"{place}.qas[{number}]", question_of(row, paragraph.get("context"))


def _first_standing(
    context: str, answers: list[Mapping[str, Any]]
) -> tuple[int, str, tuple[str, ...]]:
    """Return the first answer that stands where it should or, failing that, in just one place."""
    texts = [strict_json.printable(answer["text"]) for answer in answers]
    for answer, text in zip(answers, texts, strict=True):
        start, bare = answer.get("answer_start"), text.strip()
        if _visible(bare) and type(start) is int and start >= 0 and context.startswith(text, start):
            return start + text.index(bare), bare, ()
    for text in texts:
        bare = text.strip()
        first = context.find(bare) if _visible(bare) else -1
        alone = first >= 0 and context.find(bare, first + 1) < 0
        if alone and _stands_free(context, first, first + len(bare)):
            return first, bare, ("answer found elsewhere",)
    return -1, "", ()


def _visible(text: str) -> bool:
    """Return True if a letter, digit, punctuation or symbol is there that a tokenizer keeps."""
    return any(unicodedata.category(c)[0] in "LNPS" and c != REPLACEMENT for c in text)


def _stands_free(context: str, start: int, end: int) -> bool:
    """Return True if the span is not part of a longer word."""
    cut_before = start > 0 and context[start - 1].isalnum() and context[start].isalnum()
    cut_after = end < len(context) and context[end - 1].isalnum() and context[end].isalnum()
    return not (cut_before or cut_after)
