"""A system without a process to spare for a moment ends no sweep."""

import os

import pytest

from tasks.size_server import fork


@pytest.mark.parametrize("refusals", [0, 3, 4])
def test_a_fork_that_is_refused_is_tried_again(refusals, monkeypatch):
    answers = [BlockingIOError(11, "Resource temporarily unavailable")] * refusals + [1009]

    def answer():
        if isinstance(one := answers.pop(0), Exception):
            raise one
        return one

    waited = []
    monkeypatch.setattr(os, "fork", answer)
    monkeypatch.setattr(fork.time, "sleep", waited.append)
    if refusals > 3:
        with pytest.raises(BlockingIOError):
            fork.forked()
    else:
        assert fork.forked() == 1009
    assert len(waited) == min(refusals, 3)
