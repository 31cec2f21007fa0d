"""Which runs may be on one GPU at a time."""

from __future__ import annotations

import pytest

from sweeper.plan.plan import Run
from sweeper.run.placing import FILLED, HOST_BOUND_FLOPS, Share, fits
from sweeper.train import jobs


def test_predicted_memory_is_added_up_and_some_of_a_gpu_stays_free():
    here = [Share(40.0, 3), Share(50.0, 3)]
    assert fits(Share(5.0, 3), here, 95 / FILLED)
    assert not fits(Share(5.1, 3), here, 95 / FILLED)


def test_as_many_as_each_of_them_bears():
    three, two = Share(1.0, 3), Share(1.0, 2)
    assert fits(three, [three, three], 80)
    assert fits(two, [three], 80)
    assert not fits(three, [three, two], 80)
    assert not fits(two, [three, three], 80)


@pytest.mark.parametrize("share", [None, Share(1.0, 3), Share(1000.0, 2)])
def test_an_empty_gpu_takes_any_and_of_what_is_unknown_no_more(share):
    assert fits(share, [], 80)
    assert not fits(share, [None], 80)
    assert not fits(None, [Share(1.0, 3)], 80)


def test_jobs_say_what_they_take_of_a_gpu_where_it_is_known():
    config = {"trainer": {"steps": 7}}
    sizes = [{"tokens": 7, "flops_per_token": int(HOST_BOUND_FLOPS) + more} for more in (-1, 1)]
    small, large = (Run(f"lm1b-{size['flops_per_token']}", config, size, {}) for size in sizes)
    found = jobs([small, large], {small.id: 13.0, large.id: 17.0})
    assert [job.share for job in found] == [Share(13.0, 3), Share(17.0, 2)]
    assert [job.cost for job in found] == [small.flops, large.flops]
    assert [job.share for job in jobs([small], {})] == [None]
