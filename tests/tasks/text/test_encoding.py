"""Items are shared among processes, and results come in order."""

import multiprocessing
import os
import signal
import time

import pytest

from sweeper.store.errors import UserError
from tasks.text.encoding import FEW, in_order


def square(number):
    return number * number


@pytest.mark.parametrize("processes", [1, 5])
@pytest.mark.parametrize("count", [0, FEW, FEW + 1, FEW + 23])
def test_results_come_in_the_order_of_their_items(processes, count):
    assert list(in_order(square, range(count), processes)) == [
        n * n for n in range(count)
    ]


def test_a_long_item_keeps_no_process_from_going_on(tmp_path):
    def wait_for_the_fifth(number):
        if number == 4:
            (tmp_path / "fifth").touch()
        while number == 1 and not (tmp_path / "fifth").exists():
            time.sleep(0.01)
        return number

    assert list(in_order(wait_for_the_fifth, range(FEW + 9), 2)) == [*range(FEW + 9)]


def test_an_error_of_a_process_is_raised_here():
    def refuse(number):
        if number == FEW + 3:
            raise UserError("no such text")
        return number

    with pytest.raises(UserError, match="no such text"):
        list(in_order(refuse, range(FEW + 9), 2))


def test_a_process_that_is_killed_is_an_error_and_none_is_left():
    def pid(number):
        if number == FEW + 4:
            os.kill(os.getpid(), signal.SIGKILL)
        return os.getpid()

    results, found = in_order(pid, range(FEW + 9), 2), []
    with pytest.raises(OSError, match="was killed"):
        found.extend(results)
    gone = {*found} - {os.getpid()}
    assert gone
    for child in multiprocessing.active_children():
        child.join(10)
    assert not multiprocessing.active_children()
