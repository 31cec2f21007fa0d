"""Runs that share a GPU: what they are granted never adds up to more than there is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.run.placing import MOST, MOST_HOST_BOUND, USED, Share, granted, placed

FREE = 83.0
NEEDS = st.builds(Share, st.floats(0.1, 2 * FREE), st.booleans())
COMING_AND_GOING = st.lists(st.tuples(NEEDS, st.booleans(), st.integers(0, 7)), max_size=43)


@given(COMING_AND_GOING, st.integers(1, 3))
def test_whoever_comes_and_goes_all_have_what_they_need_and_no_gpu_is_overfull(events, count):
    gpus: list[list[Share]] = [[] for _ in range(count)]
    for need, goes, which in events:
        if goes and (busy := [gpu for gpu in gpus if gpu]):
            gpu = busy[which % len(busy)]
            gpu.pop(which % len(gpu))
        there = placed(need, gpus, FREE)
        if there is None:
            assert all(gpus), "an idle GPU takes any run"
            continue
        number, share = there
        assert share.gigabytes >= min(need.gigabytes, USED * FREE)
        gpus[number].append(share)
        for gpu in gpus:
            assert sum(run.gigabytes for run in gpu) <= USED * FREE * (1 + 1e-12)
            assert len(gpu) <= (MOST_HOST_BOUND if all(r.is_host_bound for r in gpu) else MOST)


def test_two_share_a_gpu_and_three_where_all_wait_for_the_host():
    for waits, most in ((False, MOST), (True, MOST_HOST_BOUND)):
        held: list[Share] = []
        while (share := granted(Share(3.0, waits), held, FREE)) is not None:
            held.append(share)
        assert len(held) == most
        assert sum(run.gigabytes for run in held) == pytest.approx(USED * FREE)
    assert granted(Share(3.0), held[:2], FREE) is None  # it would keep two busy that wait


def test_what_is_left_is_what_was_not_granted():
    large = granted(Share(61.0), [], FREE)
    assert large == Share(61.0)
    assert granted(Share(17.0), [large], FREE) == Share(USED * FREE - 61.0)
    assert granted(Share(USED * FREE - 59.0), [large], FREE) is None


def test_the_gpu_with_the_fewest_runs_is_first():
    one = Share(7.0)
    assert placed(one, [[one, one], [one], []], FREE)[0] == 2
    assert placed(one, [[one, one], [one]], FREE)[0] == 1
    assert placed(one, [[one, one]], FREE) is None
