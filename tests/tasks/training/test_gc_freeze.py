"""What lives as long as a process is not searched for garbage; what comes after it is."""

import gc
import weakref

import pytest

from tasks.process import freeze_gc


@pytest.fixture(autouse=True)
def _thaw():
    yield
    gc.unfreeze()
    assert gc.isenabled()


class Knot:
    """Garbage that only the collector finds."""

    def __init__(self):
        self.itself = self


def test_what_a_block_leaves_is_never_collected_and_what_comes_after_it_is():
    with freeze_gc():
        assert not gc.isenabled()
        kept = weakref.ref(Knot())
    gone = weakref.ref(Knot())
    gc.collect()
    assert kept() is not None
    assert gone() is None


def test_a_block_that_fails_leaves_the_collector_on():
    with pytest.raises(ZeroDivisionError), freeze_gc():
        _ = 1 / 0
    assert gc.isenabled()
