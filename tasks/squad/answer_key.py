"""The windows of paragraphs, and the answers predicted from the windows' scores.

A long paragraph is cut into overlapping windows, as in BERT's run_squad. Lengths and positions are
in pieces.
"""

import itertools
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sweeper.store.errors import UserError
from sweeper.store.files import publish_json, read_object
from tasks.fine_tuning.dataset import Example
from tasks.fine_tuning.shared import Sequences
from tasks.text.corpus import STARTS, new_arrays


@dataclass(frozen=True, slots=True)
class Question(Example):
    """A question, its paragraph, and its gold answers.

    Attributes:
        answers: all gold answers, for scoring.
        start: the position in the context of the answer to train on, in characters; -1 if the
            context has no answer.
        text: the answer to train on.
    """

    question: str
    context: str
    answers: tuple[str, ...]
    start: int
    text: str

    def texts(self) -> tuple[str, str]:
        """Return both texts, on which a tokenizer may be trained."""
        return self.context, self.question


Window = tuple[int, int]
"""The first piece of a stretch of text, and the number of its pieces."""


def windows(length: int, room: int, stride: int) -> list[Window]:
    """Return windows of at most `room` pieces that cover a text of `length` pieces.

    Each window begins min(stride, room) pieces after the one before, so that every piece is
    covered. A text without pieces has no windows.
    """
    step = min(room, stride)
    firsts = range(0, max(length - room, 0) + step, step) if length else ()
    return [(first, min(length - first, room)) for first in firsts]


def best_windows(cut: Sequence[Window], length: int) -> NDArray[np.int64]:
    """Return the index in `cut` of the best window for each piece of a text, (length,).

    In the best window, the piece has the most context. The context is the number of pieces on its
    shorter side, plus a hundredth of the window's length. The first of equally good windows wins.
    """
    pieces = np.arange(length)
    first, size = (np.array(numbers)[:, None] for numbers in zip(*cut, strict=True))
    before, after = pieces - first, first + size - 1 - pieces
    context = np.minimum(before, after) + 0.01 * size
    context[(before < 0) | (after < 0)] = -np.inf
    return context.argmax(axis=0)


def covered(
    offsets: NDArray[np.integer], start: int, end: int
) -> tuple[int, int] | None:
    """Return the first and the last piece with characters from `start` to before `end`, or None.

    Args:
        offsets: (pieces, 2), the start and end of each piece in the text, in characters.
    """
    first = int(np.searchsorted(offsets[:, 1], start, side="right"))
    last = int(np.searchsorted(offsets[:, 0], end, side="left")) - 1
    return (first, last) if first <= last else None


QUESTIONS = "questions.json"

Scores = tuple[NDArray[np.floating], NDArray[np.floating]]
"""The logits of the answer's start and of its end, at each position of a row without padding."""


class Span(NamedTuple):
    """The pieces `first` to `last`, inclusive. `score` is the sum of the two pieces' logits."""

    score: float
    first: int
    last: int


def write_key(
    folder: Path,
    questions: Sequence[Question],
    contexts: Sequence[tuple[str, NDArray[np.int64]]],
) -> None:
    """Write the answer key of a split to a folder.

    Args:
        contexts: each different paragraph, with the offsets (pieces, 2) of its pieces.
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
    """The questions of a split, with their paragraphs and gold answers.

    Raises:
        UserError: a file is missing or incomplete.
    """

    def __init__(self, folder: Path, windows: Sequences) -> None:
        content = read_object(folder / QUESTIONS, keys=("contexts", "questions"))
        if content is None:
            raise UserError(
                f"{folder / QUESTIONS} is missing; delete {folder.parent}. The next sweep prepares "
                "the data again."
            )
        self._contexts: list[str] = content["contexts"]
        self._questions = content["questions"]
        arrays, self._windows = windows.arrays, windows.columns
        self._paragraphs = arrays.mapped("paragraphs", STARTS, len(self._contexts) + 1)
        self._offsets = arrays.mapped("offsets", STARTS, int(self._paragraphs[-1]), 2)

    def gold(self) -> list[tuple[str, list[str]]]:
        """Return the id and the gold answers of every question."""
        return [(question["id"], question["answers"]) for question in self._questions]

    def predictions(
        self, scores: Iterable[Scores], candidates: int, longest: int
    ) -> dict[str, str]:
        """Return the predicted answer to every question, by id. It is a part of the paragraph.

        The answer is empty if no window has a valid span.

        Args:
            scores: the scores of every window of the split, in order.
            candidates, longest: see `best_span`.
        """
        found = dict.fromkeys((question["id"] for question in self._questions), "")

        numbered = enumerate(scores)
        windows = itertools.groupby(
            numbered, lambda item: int(self._windows["question"][item[0]])
        )
        firsts, lengths, seconds = (
            self._windows[key] for key in ("first", "length", "seconds")
        )

        for number, group in windows:
            question = self._questions[number]
            context = question["context"]
            begin, end = self._paragraphs[context : context + 2]
            rows, of_rows = zip(*group, strict=True)
            cut = [(int(firsts[row]), int(lengths[row])) for row in rows]
            chosen = best_windows(cut, end - begin)

            best: Span | None = None
            for place, (row, (first, length), (starts_T, ends_T)) in enumerate(
                zip(rows, cut, of_rows, strict=True)
            ):
                second = int(seconds[row])  # the position of the window's first piece
                text = slice(second, second + length)
                may_start_T, may_end_T = np.zeros((2, len(starts_T)), bool)
                may_end_T[text] = True
                may_start_T[text] = chosen[first : first + length] == place
                span = best_span(
                    starts_T, ends_T, may_start_T, may_end_T, candidates, longest
                )
                if span is not None and (best is None or span.score > best.score):
                    shift = begin + first - second
                    best = Span(span.score, span.first + shift, span.last + shift)

            if best is not None:
                start, stop = self._offsets[best.first][0], self._offsets[best.last][1]
                text = self._contexts[context]
                found[question["id"]] = text[start : with_marks(text, stop)]
        return found


def with_marks(text: str, stop: int) -> int:
    """Return the position after the combining marks that begin at `stop`.

    The tokenizer strips accents, so no piece contains these marks.
    """
    while stop < len(text) and unicodedata.category(text[stop]) == "Mn":
        stop += 1
    return stop


def best_span(
    starts_T: NDArray[np.floating],
    ends_T: NDArray[np.floating],
    may_start_T: NDArray[np.bool_],
    may_end_T: NDArray[np.bool_],
    candidates: int,
    longest: int,
) -> Span | None:
    """Return the span of at most `longest` pieces with the highest score, or None.

    As in run_squad, first combine the best `candidates` starts and the best `candidates` ends of
    all positions. Then drop spans that must not start or end at their positions. Of equal spans,
    the one with the better start wins, then the one with the better end, then the earlier one.
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


def _largest(scores_T: NDArray[np.floating], count: int) -> NDArray[np.intp]:
    return np.argsort(-scores_T, kind="stable")[:count]
