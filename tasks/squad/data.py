"""The data of SQuAD: questions and windows of their paragraphs as pieces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweeper.store.files import make_directory
from tasks.config.schema import Problem, whole
from tasks.fine_tuning.bag_of_words import guessed_answer
from tasks.fine_tuning.shared import (
    SPECIAL_TOKENS,
    ExampleData,
    FineTuningSection,
    Marks,
    encodings,
    write,
)
from tasks.squad import scoring
from tasks.squad.answer_key import AnswerKey, covered, windows, write_key
from tasks.squad.dataset import Question, SQuAD

if TYPE_CHECKING:
    from tokenizers import Tokenizer

NOWHERE = -100  # the target of a window of a question whose answer stands nowhere
OUTSIDE = 0  # the target where the answer is in another window: [CLS], as in BERT


class QuestionsSection(FineTuningSection):
    """The keys of conf/task/squad.yaml."""

    question_length: Annotated[int, whole(1, 65_536, 64)]
    stride: Annotated[int, whole(1, 65_536, 128)]
    candidates: Annotated[int, whole(1, 1024, 20)]
    answer_length: Annotated[int, whole(1, 65_536, 30)]

    def problems(self, path: str) -> Iterator[Problem]:
        yield from super().problems(path)
        room = self.sequence_length - SPECIAL_TOKENS - self.question_length
        if room < 1:
            most = self.sequence_length - SPECIAL_TOKENS - 1
            expected = f"at most {most}, since a row has {path}.sequence_length pieces"
            remedy = f"give it as {path}.question_length={max(most // 2, 1)}"
            yield Problem(f"{path}.question_length", self.question_length, expected, remedy)


class Paragraph(NamedTuple):
    """A context as pieces; offsets: (pieces, 2), where each begins and ends in the context."""

    pieces: list[int]
    offsets: NDArray[np.int64]


class Windows(ExampleData):
    """Rows of a question and a window of its paragraph, with `start` and `end` of the answer: (B,),
    position 0 where the answer is in another window.
    """

    section: QuestionsSection
    kind = "squad"
    published = SQuAD()
    columns = ("start", "end")
    shaping = (*ExampleData.shaping, "question_length", "stride")

    def open(self, folder: Path) -> dict[str, Any]:
        facts = super().open(folder)
        self.keys = {
            split: AnswerKey(folder / split, self.splits[split]) for split in ("validation", "test")
        }
        questions = {
            f"{split}_questions": of.about["questions"] for split, of in self.splits.items()
        }
        return {**facts, **questions}

    def write_split(
        self, folder: Path, tokenizer: Tokenizer, examples: list[Question], about: Mapping[str, Any]
    ) -> None:
        make_directory(folder)
        contexts = list(dict.fromkeys(question.context for question in examples))
        paragraphs = {
            context: Paragraph(encoding.ids, np.array(encoding.offsets, np.int64).reshape(-1, 2))
            for context, encoding in zip(contexts, encodings(tokenizer, contexts), strict=True)
        }
        asked = encodings(tokenizer, [question.question for question in examples])
        marks, rows = Marks.of(tokenizer), []
        columns: dict[str, list[int]] = {
            name: [] for name in ("seconds", "question", "first", "length", "start", "end")
        }
        for number, (question, encoding) in enumerate(zip(examples, asked, strict=True)):
            paragraph = paragraphs[question.context]
            ids = encoding.ids[: self.section.question_length]
            answer = None
            if question.start >= 0:
                end = question.start + len(question.text)
                answer = covered(paragraph.offsets, question.start, end)
            room, place = self.section.sequence_length - SPECIAL_TOKENS - len(ids), 2 + len(ids)
            for first, length in windows(len(paragraph.pieces), room, self.section.stride):
                rows.append(marks.row(ids, paragraph.pieces[first : first + length]))
                start, end = _target(answer, first, length, place)
                values = (place, number, first, length, start, end)
                for name, value in zip(columns, values, strict=True):
                    columns[name].append(value)
        write_key(folder, examples, [(text, paragraphs[text].offsets) for text in contexts])
        write(folder, rows, columns, {"questions": len(examples), **about})

    def measured_baselines(self, splits: Mapping[str, list[Question]]) -> dict[str, float]:
        questions = splits["test"]
        guesses = {q.id: guessed_answer(q.question, q.context) for q in questions}
        scores = scoring.score(((q.id, q.answers) for q in questions), guesses)
        return {f"bag_of_words_{name}": value for name, value in scores.items()}


def _target(answer: tuple[int, int] | None, first: int, length: int, place: int) -> tuple[int, int]:
    """Return the positions of the answer in the row of a window whose text begins at `place`."""
    if answer is None:
        return NOWHERE, NOWHERE
    start, end = answer
    if start < first or end >= first + length:
        return OUTSIDE, OUTSIDE
    return place + start - first, place + end - first
