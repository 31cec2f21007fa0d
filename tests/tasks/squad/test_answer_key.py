"""Paragraphs are cut into windows, and spans are chosen, as BERT's run_squad does it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.squad.answer_key import Span, Window, best_span, best_windows, covered, windows


def test_windows_follow_each_other_by_the_stride_to_the_end():
    assert windows(23, 11, 5) == [Window(0, 11), Window(5, 11), Window(10, 11), Window(15, 8)]
    assert windows(11, 11, 5) == [Window(0, 11)]
    assert windows(12, 11, 5) == [Window(0, 11), Window(5, 7)]
    assert windows(0, 11, 5) == []
    assert windows(7, 3, 13) == [Window(0, 3), Window(3, 3), Window(6, 1)]


@given(st.integers(1, 200), st.integers(1, 50), st.integers(1, 60))
def test_windows_are_those_of_run_squad(length, room, stride):
    expected, start = [], 0
    while start < length:
        size = min(length - start, room)
        expected.append((start, size))
        if start + size == length:
            break
        start += min(size, stride)
    found = windows(length, room, stride)
    assert found == expected
    seen = {piece for first, size in found for piece in range(first, first + size)}
    assert seen == set(range(length))


@given(st.integers(1, 120), st.integers(1, 40), st.integers(1, 40))
def test_a_piece_is_at_home_where_run_squad_says_it_has_most_context(length, room, stride):
    cut = windows(length, room, stride)
    expected = []
    for piece in range(length):
        best, expected_window = None, None
        for number, (first, size) in enumerate(cut):
            if not first <= piece < first + size:
                continue
            score = min(piece - first, first + size - 1 - piece) + 0.01 * size
            if best is None or score > best:
                best, expected_window = score, number
        expected.append(expected_window)
    assert best_windows(cut, length).tolist() == expected


@pytest.mark.parametrize(
    ("start", "end", "pieces"),
    [
        pytest.param(0, 3, (0, 0), id="one_piece"),
        pytest.param(0, 8, (0, 2), id="three_pieces"),
        pytest.param(5, 6, (1, 1), id="inside_a_piece"),
        pytest.param(5, 8, (1, 2), id="from_inside_a_piece"),
        pytest.param(3, 4, None, id="white_space"),
        pytest.param(9, 12, None, id="behind_the_last"),
    ],
)
def test_an_answer_covers_every_piece_that_holds_some_of_it(start, end, pieces):
    offsets = np.array([[0, 3], [4, 7], [7, 9]])  # "The gold s"
    assert covered(offsets, start, end) == pieces


EVERYWHERE = np.ones(7, bool)
TEXT = np.arange(7) >= 2


def _best(starts, ends, **changes):
    arguments = {
        "may_start_T": EVERYWHERE,
        "may_end_T": EVERYWHERE,
        "candidates": 20,
        "longest": 30,
        **changes,
    }
    return best_span(np.array(starts), np.array(ends), **arguments)


@pytest.mark.parametrize(
    ("changes", "span"),
    [
        ({}, Span(18.0, 0, 0)),
        ({"may_start_T": TEXT, "may_end_T": TEXT}, Span(7.0, 2, 5)),
        ({"may_start_T": TEXT, "may_end_T": TEXT, "longest": 3}, Span(6.0, 2, 3)),
        ({"may_start_T": np.arange(7) >= 4, "may_end_T": TEXT}, Span(6.0, 4, 5)),
        ({"may_start_T": TEXT, "may_end_T": TEXT, "candidates": 1}, None),
        ({"may_start_T": ~EVERYWHERE}, None),
    ],
)
def test_the_best_span_starts_ends_and_is_as_long_as_it_may(changes, span):
    assert _best([9, 0, 3, 0, 2, 0, 0], [9, 0, 0, 3, 0, 4, 0], **changes) == span


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
    expected = sorted(found, key=lambda span: span.score, reverse=True)[0] if found else None
    changes = {"may_start_T": np.array(may_start), "may_end_T": np.array(may_end)}
    assert _best(starts, ends, candidates=candidates, longest=longest, **changes) == expected
