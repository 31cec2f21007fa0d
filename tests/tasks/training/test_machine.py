"""A job keeps the memory it frees, and records what it ran on."""

import resource
import subprocess
import sys

import pytest
import torch

from tasks.training import machine

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


def _faults(how):
    command = [sys.executable, "-c", PROGRAM, how]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_freed_memory_is_not_given_back_to_the_system():
    pages = ROUNDS * 4 * BLOCK // resource.getpagesize()
    if _faults("given back") < pages / 10:
        pytest.skip("this system's C library keeps freed memory by itself")
    assert _faults("kept") < pages / 100


def test_what_bits_depend_on_is_recorded_of_a_gpu_too(tmp_path, monkeypatch):
    (tmp_path / "version").write_text("570.86.15\n")
    monkeypatch.setattr(machine, "DRIVER", tmp_path / "version")
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: 91002)
    plain, found = machine.facts("cpu"), machine.facts("cuda")
    about = {"gpu": "a GPU", "driver": "570.86.15"}
    assert found["hardware"] == plain["hardware"] | about
    assert found["versions"] == plain["versions"] | {"cuda": "12.8", "cudnn": "91002"}
