"""Pairs that are too long are cut as BERT cuts them."""

from hypothesis import given
from hypothesis import strategies as st

from tasks.mnli.task import shortened


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 80))
def test_a_pair_is_cut_as_run_classifier_cuts_it(first, second, room):
    a, b = list(range(first)), list(range(100, 100 + second))
    expected_a, expected_b = a[:], b[:]
    while len(expected_a) + len(expected_b) > room:
        if len(expected_a) > len(expected_b):
            expected_a.pop()
        else:
            expected_b.pop()
    assert shortened(a, b, room) == (expected_a, expected_b)
