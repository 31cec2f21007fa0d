"""A paragraph is cut as BERT's run_squad cuts it, and its answers are found where they stand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.squad.answer_key import Window, best_windows, covered, windows


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
