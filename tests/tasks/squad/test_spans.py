"""Of all spans that may be an answer the best is found, as BERT's run_squad looks for it."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tasks.squad.answer_key import Span, best_span

EVERYWHERE = np.ones(7, bool)


def _best(starts, ends, **changes):
    arguments = {
        "may_start_T": EVERYWHERE,
        "may_end_T": EVERYWHERE,
        "candidates": 20,
        "longest": 30,
        **changes,
    }
    return best_span(np.array(starts), np.array(ends), **arguments)


def test_the_sum_of_both_scores_decides():
    assert _best([0, 5, 0, 4, 0, 0, 0], [0, 0, 1, 0, 3, 0, 0]) == Span(8.0, 1, 4)


def test_an_answer_does_not_end_before_it_starts():
    assert _best([0, 0, 0, 0, 0, 0, 5], [5, 0, 0, 0, 0, 0, 1]) == Span(6.0, 6, 6)


def test_an_answer_has_at_most_so_many_pieces():
    starts, ends = [5.0, 0, 0, 0, 1, 0, 0], [0.0, 0, 2, 0, 0, 0, 5]
    assert _best(starts, ends, longest=7) == Span(10.0, 0, 6)
    assert _best(starts, ends, longest=3) == Span(7.0, 0, 2)
    assert _best(starts, ends, longest=2) == Span(5.0, 0, 0)


def test_an_answer_starts_and_ends_where_it_may():
    starts, ends = [9.0, 0, 3, 0, 2, 0, 0], [9.0, 0, 0, 3, 0, 4, 0]
    text = np.arange(7) >= 2
    assert _best(starts, ends, may_start_T=text, may_end_T=text) == Span(7.0, 2, 5)
    later = np.arange(7) >= 4
    assert _best(starts, ends, may_start_T=later, may_end_T=text) == Span(6.0, 4, 5)
    assert _best(starts, ends, may_start_T=~EVERYWHERE) is None


def test_only_the_best_candidates_of_the_whole_row_are_looked_at():
    starts, ends = [9.0, 8, 1, 0, 0, 0, 0], [9.0, 8, 0, 1, 0, 0, 0]
    text = np.arange(7) >= 2
    assert _best(starts, ends, may_start_T=text, may_end_T=text, candidates=2) is None
    assert _best(starts, ends, may_start_T=text, may_end_T=text, candidates=3) == Span(2.0, 2, 3)


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
