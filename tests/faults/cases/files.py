"""What a crash or a bad disk leaves of a file, and disks that are full."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from sweeper.store.attempts import Cause
from sweeper.store.metrics import MetricsWriter, read_metrics
from sweeper.store.runs import RunStore
from tasks.training import checkpoint
from tests.faults import orchestrator as sweep
from tests.faults.count import Count
from tests.faults.small import STEPS, compare, freeze
from tests.policies import policy
from tests.tasks.jobs import last_words

PATIENCE_S = 300.0
CUTS = 100
REMOUNT = ("mount", "-o", "remount,ro")


def torn_metrics(*, seed: int) -> Count:
    """metrics.jsonl cut at every byte, read, then written to by the next attempt."""
    tally = Count("metrics cut at every byte", seed, runs=1)
    with TemporaryDirectory(dir=_memory()) as folder:
        path, whole = Path(folder) / "whole.jsonl", Path(folder) / "torn.jsonl"
        rows = [{"step": step, "loss": 1 / (step + 1), "nan": float("inf")} for step in range(40)]
        with MetricsWriter(path) as writer:
            for row in rows:
                writer.write(row)
        data = path.read_bytes()
        for cut in range(len(data) + 1):
            whole.write_bytes(data[:cut])
            tally.injected += 1
            complete = data[:cut].count(b"\n")
            complete += cut < len(data) and data[cut : cut + 1] == b"\n"  # only its end is missing
            tally.wrong += read_metrics(whole)[0] != rows[:complete]
            with MetricsWriter(whole) as writer:
                writer.write({"step": 99})
            tally.wrong += read_metrics(whole) != ([*rows[:complete], {"step": 99}], 0)
    return tally


def flipped_checkpoints(source: Path, *, seed: int, count: int) -> Count:
    """A checkpoint with one bit flipped, in its content or its digest, or cut short."""
    tally, rng = Count("bit flips in a checkpoint, and cuts", seed, runs=1), random.Random(seed)
    with TemporaryDirectory(dir=_memory()) as folder:
        path = _checkpoint(source, Path(folder) / "outputs")
        run = path.parents[3].name
        checkpoint.verify(path, run)
        content, digest = path.read_bytes(), checkpoint.sidecar(path).read_bytes()
        for number in range(count):
            where = checkpoint.sidecar(path) if number % 20 == 19 else path
            flipped = bytearray(digest if where != path else content)
            flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
            where.write_bytes(flipped)
            tally.injected += 1
            tally.accepted += _accepted(path, run, content, digest)
            path.write_bytes(content)
            checkpoint.sidecar(path).write_bytes(digest)
        for number in range(CUTS):
            path.write_bytes(content[: len(content) * number // CUTS])
            tally.injected += 1
            tally.accepted += _accepted(path, run, content, digest)
    return tally


def full_disk(
    source: Path, reference: dict[str, str | None], *, seed: int, count: int, of: str
) -> Count:
    """A small file system fills up in mid-sweep, with bytes or with files, and is freed again."""
    tally, rng = Count(f"disk full of {of}", seed), random.Random(seed)
    for _ in range(count):
        with small_disk("6m,nr_inodes=400") as disk:
            outputs = disk / "outputs"
            ids = freeze(source, outputs, len(reference))
            fill = partial(_fill_and_free, disk / "ballast", rng.uniform(0.2, 2.0), of)
            filler = sweep.fork(fill, Path("/dev/null"))
            patient = policy(tries=10_000, wait_s=0.2)
            sweep.orchestrate(outputs, ids, sweep.ForkBackend(), policy=patient)
            assert os.waitpid(filler, 0)[1] == 0, "the disk was not full"
            tally.injected += 1
            store = RunStore(outputs)
            words = [word for name in ids for _, word in last_words(store.run(name))]
            said = [word["cause"] for word in words if word]  # some had no room to say anything
            tally.complaints += sum(cause not in (Cause.DONE, Cause.DISK_FULL) for cause in said)
            compare(tally, outputs, reference)
    return tally


def _fill_and_free(ballast: Path, wait: float, of: str) -> int:
    ballast.mkdir()
    time.sleep(wait)
    with suppress(OSError), (ballast / "bytes").open("wb", buffering=0) as file:
        for number in itertools.count():
            if of == "bytes":
                file.write(b"\0" * 4096)
            else:
                (ballast / str(number)).touch()
    time.sleep(3)
    shutil.rmtree(ballast)
    return 0


def _accepted(path: Path, run: str, content: bytes, digest: bytes) -> bool:
    try:
        checkpoint.verify(path, run)
    except checkpoint.Damaged:
        return False
    # A flip in the digest's own file may leave what it says unchanged (a space that became a tab).
    return path.read_bytes() != content


def _checkpoint(source: Path, outputs: Path) -> Path:
    """A checkpoint of a small run that was killed half way."""
    [name] = freeze(source, outputs, 1)
    run = RunStore(outputs).run(name)
    pid = sweep.ForkBackend().start(run.path, 0)
    deadline = time.monotonic() + PATIENCE_S
    while not any(f"{STEPS // 2:08}" < path.stem[5:] for path in run.checkpoints()):
        assert time.monotonic() < deadline, "no checkpoint appeared"
        time.sleep(0.005)
    sweep.kill(pid)
    os.waitpid(pid, 0)
    for path in run.checkpoints():
        if checkpoint.sidecar(path).exists():
            return path
    raise AssertionError("no whole checkpoint is left")


@contextmanager
def small_disk(size: str = "6m") -> Iterator[Path]:
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "headroom-faults", folder]
        subprocess.run(mount, check=True)
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)


@contextmanager
def disk_to_lock(size: str) -> Iterator[tuple[Path, Callable[[], object]]]:
    """A folder, and what makes it read-only: its file system where one can be mounted."""
    if can_mount():
        with small_disk(size) as disk:
            yield disk, partial(subprocess.run, [*REMOUNT, str(disk)], check=True)
        return
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        change = ["chmod", "-R"]
        try:
            yield Path(folder), partial(subprocess.run, [*change, "a-w", folder], check=True)
        finally:
            subprocess.run([*change, "u+w", folder], check=True)


def can_mount() -> bool:
    """Whether this user may mount a file system."""
    try:
        with small_disk():
            return True
    except (subprocess.CalledProcessError, FileNotFoundError):
        return False


def _memory() -> str | None:
    """A folder in memory for what is not about disks."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
