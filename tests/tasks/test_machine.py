"""Memory that a job frees stays with it."""

from __future__ import annotations

import os
import resource
import warnings

from tasks import machine

BLOCK, ROUNDS = 8 * 2**20, 10


def _faults_of_repeated_blocks(*, kept: bool) -> int:
    """Page faults, in a process of its own, of taking and freeing the same blocks again."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Python >= 3.12 warns where threads of other tests' libraries are still about.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        if kept:
            machine.keep_memory()
        _take_and_free()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(ROUNDS):
            _take_and_free()
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
        os.write(writing, str(faults).encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(pid, 0)
    with os.fdopen(reading) as told:
        return int(told.read())


def _take_and_free() -> None:
    blocks = [bytearray(BLOCK) for _ in range(4)]
    blocks.clear()


def test_freed_memory_is_not_given_back_to_the_system() -> None:
    pages = ROUNDS * 4 * BLOCK // resource.getpagesize()
    assert _faults_of_repeated_blocks(kept=False) > pages / 10, "this machine shows no difference"
    assert _faults_of_repeated_blocks(kept=True) < pages / 100
