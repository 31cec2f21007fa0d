"""Tests that paragraphs are cut into windows and spans are chosen as in BERT's run_squad."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.squad.answer_key import Span, best_span, best_windows, covered, windows


@given(st.integers(0, 200), st.integers(1, 50), st.integers(1, 60))
def test_windows_are_those_of_run_squad(length, room, stride):
    expected, start = [], 0
    while start < length:
        size = min(length - start, room)
        expected.append((start, size))
        if start + size == length:
            break
        start += min(size, stride)
    assert windows(length, room, stride) == expected


@given(st.integers(1, 120), st.integers(1, 40), st.integers(1, 40))
def test_a_piece_is_at_home_where_run_squad_says_it_has_most_context(
    length, room, stride
):
    cut = windows(length, room, stride)
    expected = []
    for piece in range(length):
        scores = {
            number: min(piece - first, first + size - 1 - piece) + 0.01 * size
            for number, (first, size) in enumerate(cut)
            if first <= piece < first + size
        }
        expected.append(max(scores, key=scores.get))  # the first of equal ones
    assert best_windows(cut, length).tolist() == expected


@pytest.mark.parametrize(
    ("start", "end", "pieces"),
    [
        (0, 3, (0, 0)),  # one piece
        (0, 8, (0, 2)),  # three pieces
        (5, 6, (1, 1)),  # inside a piece
        (5, 8, (1, 2)),  # from inside a piece
        (3, 4, None),  # white space
        (9, 12, None),  # behind the last
    ],
)
def test_an_answer_covers_every_piece_that_holds_some_of_it(start, end, pieces):
    offsets = np.array([[0, 3], [4, 7], [7, 9]])  # "The gold s"
    assert covered(offsets, start, end) == pieces


# Few different values, so that equal ones are frequent.
SCORES = st.lists(st.sampled_from([-2.0, -0.5, 0.0, 0.25, 3.0]), min_size=7, max_size=7)
PLACES = st.lists(st.booleans(), min_size=7, max_size=7)


@given(SCORES, SCORES, PLACES, PLACES, st.integers(1, 8), st.integers(1, 8))
def test_the_span_is_the_first_of_run_squads_list(
    starts, ends, may_start, may_end, candidates, longest
):
    def best_indexes(scores):
        ranked = sorted(enumerate(scores), key=lambda item: item[1], reverse=True)
        return [index for index, _ in ranked[:candidates]]

    found = [
        Span(starts[first] + ends[last], first, last)
        for first in best_indexes(starts)
        for last in best_indexes(ends)
        if may_start[first] and may_end[last] and 0 <= last - first < longest
    ]
    expected = max(found, key=lambda span: span.score, default=None)
    actual = best_span(
        np.array(starts),
        np.array(ends),
        may_start_T=np.array(may_start),
        may_end_T=np.array(may_end),
        candidates=candidates,
        longest=longest,
    )
    assert actual == expected
