"""Memory that a job frees stays with it."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

BLOCK, ROUNDS = 8 * 2**20, 10
# Page faults of taking and freeing the same blocks again, in a process that nothing has set up.
PROGRAM = f"""if True:
    import resource, sys
    from tasks.training import machine

    def take_and_free():
        blocks = [bytearray({BLOCK}) for _ in range(4)]
        blocks.clear()

    if sys.argv[1] == "kept":
        machine.keep_memory()
    take_and_free()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range({ROUNDS}):
        take_and_free()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _faults(how: str) -> int:
    command = [sys.executable, "-c", PROGRAM, how]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_freed_memory_is_not_given_back_to_the_system() -> None:
    pages = ROUNDS * 4 * BLOCK // resource.getpagesize()
    if _faults("given back") < pages / 10:
        pytest.skip("this system's C library keeps freed memory by itself")
    assert _faults("kept") < pages / 100
