"""The prepared data of SQuAD: questions and windows of their paragraphs as pieces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweeper.store.files import make_directory
from tasks.fine_tuning.bag_of_words import guessed_answer
from tasks.fine_tuning.prepare import SPLITS, ExampleSettings, encodings, tokenizer_for
from tasks.fine_tuning.sequences import ABOUT, FRAME, Marks, write
from tasks.squad import scoring
from tasks.squad.answer_key import write_key
from tasks.squad.dataset import Question, SQuAD
from tasks.squad.windows import covered, windows

if TYPE_CHECKING:
    from tokenizers import Tokenizer

NOWHERE = -100  # the target of a window of a question whose answer stands nowhere
OUTSIDE = 0  # the target where the answer is in another window: [CLS], as in BERT


@dataclass(frozen=True)
class WindowSettings(ExampleSettings):
    """How long a question may be, and how far apart the windows of a paragraph begin, in pieces."""

    question_length: int
    stride: int


class Paragraph(NamedTuple):
    """A context as pieces; offsets: (pieces, 2), where each begins and ends in the context."""

    pieces: list[int]
    offsets: NDArray[np.int64]


def prepare(folder: Path, data: Mapping[str, Any], settings: WindowSettings) -> None:
    """Make whatever `folder` lacks; the caller keeps other processes out of it.

    Raises UserError where the data are missing, unusable, or not what the plan was made from.
    """
    if all((folder / split / ABOUT).exists() for split in SPLITS):
        return
    make_directory(folder)
    examples = SQuAD().load(data, folder / "sample")
    texts = (question.texts() for question in examples.splits["train"])
    tokenizer = tokenizer_for(folder, texts, settings)
    about = {**examples.rows, "validation": {}}
    about["test"] = {**about["test"], "baselines": _baselines(examples.splits["test"])}
    for split in SPLITS:
        _write_split(folder / split, tokenizer, examples.splits[split], settings, about[split])


def _write_split(
    folder: Path,
    tokenizer: Tokenizer,
    questions: list[Question],
    settings: WindowSettings,
    about: Mapping[str, Any],
) -> None:
    make_directory(folder)
    contexts = list(dict.fromkeys(question.context for question in questions))
    paragraphs = dict(zip(contexts, _paragraphs(tokenizer, contexts), strict=True))
    asked = encodings(tokenizer, [question.question for question in questions])
    marks, rows = Marks.of(tokenizer), []
    columns: dict[str, list[int]] = {
        name: [] for name in ("seconds", "question", "first", "length", "start", "end")
    }
    for number, (question, encoding) in enumerate(zip(questions, asked, strict=True)):
        paragraph, ids = paragraphs[question.context], encoding.ids[: settings.question_length]
        answer = _answer(question, paragraph)
        room, place = settings.sequence_length - FRAME - len(ids), 2 + len(ids)
        for first, length in windows(len(paragraph.pieces), room, settings.stride):
            rows.append(marks.row(ids, paragraph.pieces[first : first + length]))
            start, end = _target(answer, first, length, place)
            values = (place, number, first, length, start, end)
            for name, value in zip(columns, values, strict=True):
                columns[name].append(value)
    write_key(folder, questions, [(text, paragraphs[text].offsets) for text in contexts])
    write(folder, rows, columns, {"questions": len(questions), **about})


def _answer(question: Question, paragraph: Paragraph) -> tuple[int, int] | None:
    if question.start < 0:
        return None
    return covered(paragraph.offsets, question.start, question.start + len(question.text))


def _target(answer: tuple[int, int] | None, first: int, length: int, place: int) -> tuple[int, int]:
    """Return the positions of the answer in the row of a window whose text begins at `place`."""
    if answer is None:
        return NOWHERE, NOWHERE
    start, end = answer
    if start < first or end >= first + length:
        return OUTSIDE, OUTSIDE
    return place + start - first, place + end - first


def _paragraphs(tokenizer: Tokenizer, contexts: list[str]) -> list[Paragraph]:
    return [
        Paragraph(encoding.ids, np.array(encoding.offsets, np.int64).reshape(-1, 2))
        for encoding in encodings(tokenizer, contexts)
    ]


def _baselines(questions: list[Question]) -> dict[str, float]:
    guesses = {q.id: guessed_answer(q.question, q.context) for q in questions}
    scores = scoring.score(((q.id, q.answers) for q in questions), guesses)
    return {f"bag_of_words_{name}": value for name, value in scores.items()}
