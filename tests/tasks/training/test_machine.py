"""How a job sets up its process, and what it records about the machine, packages and code."""

import gc
import math
import resource
import shutil
import subprocess
import sys

import pytest

from sweeper.run.backends.ray import Place
from sweeper.store.code import Code, differing, pin
from tasks.process import freeze_gc
from tasks.training import machine
from tests.end_to_end.test_sweep import python
from tests.tasks.jobs import config, freeze, run_job, science

BLOCK, ROUNDS = 8 * 2**20, 10
# Count the page faults of allocating and freeing the same blocks, before and after `keep_memory`.
PROGRAM = f"""if True:
    import resource
    from tasks.training import machine

    def take_and_free():
        blocks = [bytearray({BLOCK}) for _ in range(4)]
        blocks.clear()

    def faults():
        take_and_free()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range({ROUNDS}):
            take_and_free()
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    given_back = faults()
    machine.keep_memory()
    print(given_back, faults())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone counts this time")
def test_time_that_another_process_had_the_processor_is_counted():
    """Two processes on one processor: each waits for about half of the time."""
    program = """if True:
        import os, time
        from tasks.training import machine

        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        print("ready", flush=True)
        input()
        before, begun = machine.waited_seconds(), time.monotonic()
        while time.monotonic() < begun + 0.5:
            pass
        print(machine.waited_seconds() - before)
    """
    command = [sys.executable, "-c", program]
    pair = [
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    for process in pair:
        assert process.stdout.readline() == "ready\n"
    for process in pair:
        process.stdin.write("\n")
        process.stdin.flush()
    waited = [float(process.communicate()[0]) for process in pair]
    if sum(waited) == 0 or math.isnan(sum(waited)):
        pytest.skip("this system does not count how long threads wait")
    assert min(waited) > 0.1


def test_freed_memory_is_not_given_back_to_the_system():
    pages = ROUNDS * 4 * BLOCK // resource.getpagesize()
    given_back, kept = map(int, python("-c", PROGRAM).stdout.split())
    if given_back < pages / 10:
        pytest.skip("this system's C library keeps freed memory by itself")
    assert kept < pages / 100


def test_what_a_block_leaves_is_never_looked_at_by_the_garbage_collector():
    with freeze_gc():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0
    gc.unfreeze()


def test_the_package_of_an_attention_is_recorded(installed):
    installed("mine", "", {"headroom.attention": "mine = mine"})
    named = config({"model.attention": {"name": "mine"}})
    [made] = machine.code_of(named)["packages"]
    assert (made["package"], made["version"]) == ("mine", "1.2.3")


def pinned(run, program):
    """Return the job of a run under a copy of the code, as it is now."""
    return Place(str(run.path), str(pin(run.outputs, Code.read(program), [])))


def recorded(run):
    """Return the digests of the code that the only attempt at a run recorded."""
    [attempt] = run.attempts()
    return attempt.info()["code_parts"]


@pytest.mark.slow
def test_a_job_that_waited_while_the_code_was_edited_computes_what_it_would_have(
    outputs, tmp_path
):
    program = shutil.copytree(pin(outputs, Code.read(), []), tmp_path / "program")
    undisturbed, waited, later = (
        freeze(outputs, {}, name) for name in ("one", "two", "three")
    )
    first = pinned(waited, program)
    path = program / "models" / "initialisation.py"
    path.write_text(path.read_text().replace("xavier_uniform_", "xavier_normal_"))
    second = pinned(later, program)
    assert (run_job(undisturbed), first.work(), second.work()) == (0, 0, 0)
    assert science(waited) == science(undisturbed)
    assert differing([recorded(waited), recorded(undisturbed)]) == []
    assert science(later)["weights_sha256"] != science(waited)["weights_sha256"]
    assert differing([recorded(waited), recorded(later)]) == ["models"]
