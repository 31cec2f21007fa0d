"""Functions that cut paragraphs into windows, and predict answers from the logits of the windows.

A long paragraph does not fit into a row, so it is cut into windows that overlap, as in BERT's
run_squad. Lengths and positions are in tokens, unless a docstring says otherwise.
"""

import itertools
import json
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sweeper.store.files import publish_json
from tasks.batch import Booleans, Floats, Integers
from tasks.fine_tuning.data import Sequences
from tasks.fine_tuning.dataset import Example
from tasks.text.corpus import STARTS, mapped, new_arrays


@dataclass(frozen=True, slots=True)
class Question(Example):
    """A question, its paragraph, and its gold answers.

    Attributes:
        context: the paragraph.
        answers: all gold answers. Predictions are scored against them.
        text: the training answer, which is the first gold answer that is at its answer_start in the
            context. It is "" if there is none.
        start: the position in the context, in characters, at which the training answer begins, or
            -1 if there is none.
    """

    question: str
    context: str
    answers: tuple[str, ...]
    start: int
    text: str

    def texts(self) -> tuple[str, str]:
        """Return the paragraph and the question. A tokenizer may be trained on them."""
        return self.context, self.question


Window = tuple[int, int]
"""The index of the first token of a window in its paragraph, and the number of tokens."""


def windows(length: int, room: int, stride: int) -> list[Window]:
    """Return windows of at most `room` tokens that cover a text of `length` tokens.

    Each window begins `stride` tokens after the previous window, or `room` tokens after it if
    `room` is smaller. So the windows leave no gaps. If `length` is 0, the list is empty.
    """
    step = min(room, stride)
    firsts = range(0, max(length - room, 0) + step, step) if length else ()
    return [(first, min(length - first, room)) for first in firsts]


def best_windows(cut: Sequence[Window], length: int) -> Integers:
    """Return an array (length,): for each token of a text, the index in `cut` of the best window.

    As in run_squad, the best window is the one that gives the token most context. The context is
    the number of tokens before or after the token in the window, whichever is smaller, plus a
    hundredth of the window's length. If windows are equally good, choose the first.
    """
    pieces = np.arange(length)
    first, size = (np.array(numbers)[:, None] for numbers in zip(*cut, strict=True))
    before, after = pieces - first, first + size - 1 - pieces
    context = np.minimum(before, after) + 0.01 * size
    context[(before < 0) | (after < 0)] = -np.inf
    return context.argmax(axis=0)


def covered(offsets: Integers, start: int, end: int) -> tuple[int, int] | None:
    """Return the indices of the first and the last token that overlap text[start:end].

    Return None if no token overlaps it.

    Args:
        offsets: (tokens, 2), the start and end of each token in the text, in characters.
    """
    first = int(np.searchsorted(offsets[:, 1], start, side="right"))
    last = int(np.searchsorted(offsets[:, 0], end, side="left")) - 1
    return (first, last) if first <= last else None


QUESTIONS = "questions.json"

Scores = tuple[Floats, Floats]
"""The start logits and the end logits of one row, each of shape (T,), without padding."""


class Span(NamedTuple):
    """A possible answer: the tokens `first` to `last`, inclusive.

    `score` is the start logit of `first` plus the end logit of `last`.
    """

    score: float
    first: int
    last: int


def write_key(
    folder: Path,
    questions: Sequence[Question],
    contexts: Sequence[tuple[str, Integers]],
) -> None:
    """Write the questions, paragraphs and gold answers of a split. `AnswerKey` reads them.

    Args:
        contexts: for each different paragraph, its text and the offsets of its tokens. The offsets
            have the shape (tokens, 2), as in `covered`.
    """
    places = {context: place for place, (context, _) in enumerate(contexts)}
    offsets = [offsets for _, offsets in contexts]
    with new_arrays(folder, {"offsets": STARTS, "paragraphs": STARTS}) as add:
        add("offsets", np.concatenate(offsets))
        add("paragraphs", np.cumsum([0, *map(len, offsets)]))
    asked = [
        {"id": q.id, "context": places[q.context], "answers": q.answers}
        for q in questions
    ]
    publish_json(folder / QUESTIONS, {"contexts": list(places), "questions": asked})


class AnswerKey:
    """The questions of a split, with their paragraphs and gold answers, read from a folder.

    Args:
        folder: the folder to which `write_key` has written.
        windows: the rows of the split. Each has a question and one window of its paragraph.
    """

    def __init__(self, folder: Path, windows: Sequences) -> None:
        content = json.loads((folder / QUESTIONS).read_bytes())
        self._contexts: list[str] = content["contexts"]
        self._questions = content["questions"]
        self._windows = windows.columns
        count = len(self._contexts)
        self._paragraphs = mapped(folder, "paragraphs", STARTS, count + 1)
        self._offsets = mapped(folder, "offsets", STARTS, int(self._paragraphs[-1]), 2)

    def gold(self) -> list[tuple[str, list[str]]]:
        """Return a pair (id, gold answers) for each question."""
        return [(question["id"], question["answers"]) for question in self._questions]

    def predictions(
        self, scores: Sequence[Scores], candidates: int, longest: int
    ) -> dict[str, str]:
        """Predict an answer to every question. Return a dict from question ids to answers.

        An answer is a part of the paragraph, or "" if `best_span` finds no span in any window.

        Args:
            scores: the logits of the split's windows, in order. If the last windows are missing,
                the result has only the questions of the given windows.
            candidates: see `best_span`.
            longest: see `best_span`.
        """
        scored = self._windows["question"][: len(scores)]
        asked: Iterable[int] = range(len(self._questions))
        if len(scored) < len(self._windows["question"]):
            asked = np.unique(scored)
        found = {self._questions[number]["id"]: "" for number in asked}

        windows = itertools.groupby(range(len(scored)), lambda row: int(scored[row]))
        for number, rows in windows:
            question = self._questions[number]
            text = self._contexts[question["context"]]
            spans = self._spans(
                question["context"], [*rows], scores, candidates, longest
            )
            if spans:
                best = max(spans, key=lambda span: span.score)
                start, stop = self._offsets[best.first][0], self._offsets[best.last][1]
                found[question["id"]] = text[start : with_marks(text, stop)]
        return found

    def _spans(
        self,
        context: int,
        rows: list[int],
        scores: Sequence[Scores],
        candidates: int,
        longest: int,
    ) -> list[Span]:
        """Return the best span of each window of a question, without windows that have none.

        `first` and `last` of a span are indices into the concatenated tokens of all paragraphs.

        Args:
            context: the index of the question's paragraph.
            rows: the row numbers of the question's windows.
        """
        begin, end = self._paragraphs[context : context + 2]
        firsts, lengths, seconds = (
            self._windows[name][rows].tolist()
            for name in ("first", "length", "seconds")
        )
        chosen = best_windows([*zip(firsts, lengths, strict=True)], end - begin)

        spans = []
        for place, row in enumerate(rows):
            starts_T, ends_T = scores[row]
            first, length, second = firsts[place], lengths[place], seconds[place]
            text = slice(second, second + length)  # the window's positions in the row
            may_start_T, may_end_T = np.zeros((2, len(starts_T)), bool)
            may_end_T[text] = True
            may_start_T[text] = chosen[first : first + length] == place
            span = best_span(
                starts_T, ends_T, may_start_T, may_end_T, candidates, longest
            )
            if span is not None:
                shift = begin + first - second
                spans.append(Span(span.score, span.first + shift, span.last + shift))
        return spans


def with_marks(text: str, stop: int) -> int:
    """Move the end of an answer past the combining marks that follow it.

    The tokenizer strips accents, so the last token of an answer ends before such marks.

    Args:
        text: the paragraph.
        stop: the end of the last token, as a character index.

    Returns:
        The index of the first character from `stop` on that is no combining mark.
    """
    while stop < len(text) and unicodedata.category(text[stop]) == "Mn":
        stop += 1
    return stop


def best_span(
    starts_T: Floats,
    ends_T: Floats,
    may_start_T: Booleans,
    may_end_T: Booleans,
    candidates: int,
    longest: int,
) -> Span | None:
    """Return the span with the highest score, or None if no span is allowed.

    As in run_squad, a span is allowed if it fulfils all of these conditions:

    - Its first token is one of the `candidates` positions with the highest start logits.
    - Its last token is one of the `candidates` positions with the highest end logits.
    - It has 1 to `longest` tokens.
    - `may_start_T` is True at its first token.
    - `may_end_T` is True at its last token.

    Of spans with equal scores, choose the one with the higher start logit, then the one that starts
    earlier, then the one that ends earlier.
    """
    first, last = _largest(starts_T, candidates), _largest(ends_T, candidates)
    lengths = last[None, :] - first[:, None] + 1
    allowed = (lengths >= 1) & (lengths <= longest)
    allowed &= may_start_T[first][:, None] & may_end_T[last][None, :]
    if not allowed.any():
        return None

    sums = starts_T[first].astype(np.float64)[:, None] + ends_T[last][None, :]
    row, column = np.unravel_index(
        np.argmax(np.where(allowed, sums, -np.inf)), sums.shape
    )
    return Span(float(sums[row, column]), int(first[row]), int(last[column]))


def _largest(scores_T: Floats, count: int) -> Integers:
    return np.argsort(-scores_T, kind="stable")[:count]
