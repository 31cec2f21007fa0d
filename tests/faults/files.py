"""Cases with damaged files and full disks."""

import itertools
import os
import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from sweeper.store.attempts import Cause
from sweeper.store.runs import RunStore
from tasks import checkpoint
from tests.faults import sweep
from tests.faults.sweep import STEPS, Count, Setting, small_sweep
from tests.policies import policy
from tests.tasks.jobs import last_words
from tests.waiting import wait_until

FLIPS, CUTS = 300, 100
MEMORY = (
    "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
)  # for cases without a disk


def flipped_checkpoints(setting: Setting) -> Count:
    """Flip one bit of a checkpoint or of its checksum, or cut the checkpoint short."""
    count = Count("bit flips in a checkpoint, and cuts", setting.seed, runs=1)
    rng = random.Random(setting.seed)
    with TemporaryDirectory(dir=MEMORY) as folder:
        path = killed_checkpoint(setting.source, Path(folder) / "outputs")
        run, sidecar = path.parents[3].name, checkpoint.sidecar(path)
        checkpoint.verify(path, run)
        content, checksum = path.read_bytes(), sidecar.read_bytes()

        def check() -> None:
            count.injected += 1
            with suppress(checkpoint.Damaged):
                checkpoint.verify(path, run)
                # A flip in the checksum's file may keep its meaning: a space becomes a tab.
                count.accepted += path.read_bytes() != content
            path.write_bytes(content)
            sidecar.write_bytes(checksum)

        for number in range(FLIPS):
            where = sidecar if number % 20 == 19 else path
            flipped = bytearray(where.read_bytes())
            flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
            where.write_bytes(flipped)
            check()
        for number in range(CUTS):
            path.write_bytes(content[: len(content) * number // CUTS])
            check()
    return count


def full_disk(setting: Setting, *, times: int, of: str) -> Count:
    """Fill a small file system with bytes or with files during a sweep, and free it again."""
    count, rng = Count(f"disk full of {of}", setting.seed), random.Random(setting.seed)
    for _ in range(times):
        with (
            small_disk() as disk,
            small_sweep(setting, count, disk) as (outputs, ids),
        ):
            fill = partial(fill_and_free, disk / "ballast", rng.uniform(0.2, 2.0), of)
            filler = sweep.fork(fill, Path("/dev/null"))
            patient = policy(tries=10_000, wait_s=0.2)
            sweep.orchestrate(outputs, ids, sweep.ForkBackend(), policy=patient)
            assert os.waitpid(filler, 0)[1] == 0, "the disk was not full"
            count.injected += 1
            store = RunStore(outputs)
            words = [word for name in ids for _, word in last_words(store.run(name))]
            # Some had no room for a message.
            expected = (None, Cause.DONE, Cause.DISK_FULL)
            count.complaints += sum(word.get("cause") not in expected for word in words)
    return count


def fill_and_free(ballast: Path, wait: float, of: str) -> int:
    """Fill the disk after a wait, and free it three seconds later."""
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


def killed_checkpoint(source: Path, outputs: Path) -> Path:
    """Kill a small run half-way; return a checkpoint of it."""
    [name] = sweep.freeze(source, outputs, 1)
    run = RunStore(outputs).run(name)
    pid = sweep.ForkBackend().start(run.path, 0)
    half = f"{STEPS // 2:08}"
    wait_until(
        lambda: any(half < path.stem[5:] for path in run.checkpoints()), "a checkpoint"
    )
    sweep.kill(pid)
    os.waitpid(pid, 0)
    return next(path for path in run.checkpoints() if checkpoint.sidecar(path).exists())


@contextmanager
def small_disk() -> Iterator[Path]:
    """Mount a file system of 6 MB and 400 files in memory."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        mount = "mount -t tmpfs -o size=6m,nr_inodes=400 headroom-faults".split()
        subprocess.run([*mount, folder], check=True)
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)


def can_mount() -> bool:
    try:
        with small_disk():
            return True
    except (subprocess.CalledProcessError, FileNotFoundError):
        return False
