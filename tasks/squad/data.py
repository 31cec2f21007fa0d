"""The data of the task `squad`. Each row has a question and one window of its paragraph."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from tokenizers import Tokenizer

from sweeper.store.files import make_directory
from tasks.config.schema import Problem, whole
from tasks.fine_tuning.bag_of_words import guessed_answer
from tasks.fine_tuning.data import (
    SPECIAL_TOKENS,
    ExampleData,
    FineTuningSection,
    encodings,
    marks_of,
    write,
)
from tasks.squad import scoring
from tasks.squad.answer_key import AnswerKey, Question, covered, windows, write_key
from tasks.squad.dataset import SQuAD

# The target of a window if the question has no training answer. The loss ignores this target.
NOWHERE = -100
# The target of a window if the answer is not completely in the window: the position of [CLS], as in
# BERT.
OUTSIDE = 0


class QuestionsSection(FineTuningSection):
    """The section `task` of SQuAD, as in conf/task/squad.yaml."""

    question_length: Annotated[int, whole(1, 65_536, 64)]
    stride: Annotated[int, whole(1, 65_536, 128)]
    candidates: Annotated[int, whole(1, 1024, 20)]
    answer_length: Annotated[int, whole(1, 65_536, 30)]

    def problems(self, path: str = "") -> Iterator[Problem]:
        yield from super().problems(path)
        room = self.sequence_length - SPECIAL_TOKENS - self.question_length
        if room < 1:
            most = self.sequence_length - SPECIAL_TOKENS - 1
            length = f"{path}.sequence_length={self.sequence_length}"
            expected = f"at most {most}, so that {length} leaves room for the paragraph"
            remedy = f"set {path}.question_length={max(most // 2, 1)}"
            yield Problem(
                f"{path}.question_length", self.question_length, expected, remedy
            )


class Windows(ExampleData):
    """Batches of rows, each with a question and a window of its paragraph.

    The targets `start` and `end`, each (B,), are the positions in the row of the answer's first and
    last token. Both are OUTSIDE if the answer is not completely in the window, and NOWHERE if the
    question has no training answer.
    """

    section: QuestionsSection
    kind = "squad"
    published = SQuAD()
    columns = ("start", "end")
    shaping = (*ExampleData.shaping, "question_length", "stride")

    def open(self, folder: Path) -> None:
        super().open(folder)
        measured = ("validation", "test")
        self.keys = {
            split: AnswerKey(folder / split, self.splits[split]) for split in measured
        }

    def write_split(
        self,
        folder: Path,
        tokenizer: Tokenizer,
        examples: list[Question],
        about: Mapping[str, Any],
    ) -> None:
        make_directory(folder)
        contexts = list(dict.fromkeys(question.context for question in examples))
        paragraphs = {
            context: (encoding.ids, np.array(encoding.offsets, np.int64).reshape(-1, 2))
            for context, encoding in zip(
                contexts, encodings(tokenizer, contexts), strict=True
            )
        }
        asked = encodings(tokenizer, [question.question for question in examples])

        rows: list[list[int]] = []
        cls, sep = marks_of(tokenizer)
        columns: dict[str, list[int]] = {
            name: []
            for name in ("seconds", "question", "first", "length", "start", "end")
        }

        pairs = zip(examples, asked, strict=True)
        for number, (question, encoding) in enumerate(pairs):
            pieces, offsets = paragraphs[question.context]
            ids = encoding.ids[: self.section.question_length]
            answer = None
            if question.start >= 0:
                stop = question.start + len(question.text)
                answer = covered(offsets, question.start, stop)

            room = self.section.sequence_length - SPECIAL_TOKENS - len(ids)
            place = 2 + len(ids)  # the position in the row at which the window begins
            for first, length in windows(len(pieces), room, self.section.stride):
                rows.append([cls, *ids, sep, *pieces[first : first + length], sep])
                start = end = NOWHERE
                if answer is not None:
                    inside = first <= answer[0] and answer[1] < first + length
                    start, end = (
                        place + piece - first if inside else OUTSIDE for piece in answer
                    )
                values = (place, number, first, length, start, end)
                for name, value in zip(columns, values, strict=True):
                    columns[name].append(value)

        write_key(folder, examples, [(text, paragraphs[text][1]) for text in contexts])
        write(folder, rows, columns, {"questions": len(examples), **about})

    def measured_baselines(
        self, splits: Mapping[str, list[Question]]
    ) -> dict[str, float]:
        questions = splits["test"]
        guesses = {q.id: guessed_answer(q.question, q.context) for q in questions}
        scores = scoring.score(((q.id, q.answers) for q in questions), guesses)
        return {f"bag_of_words_{name}": value for name, value in scores.items()}
