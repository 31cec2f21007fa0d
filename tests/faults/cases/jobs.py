"""Jobs that hang, run out of memory, or leave without a word."""

from __future__ import annotations

import ctypes
import functools
import os
import resource
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from sweeper.run.watchdog import Watchdog
from sweeper.store.attempts import Cause
from sweeper.store.runs import RunStore
from tasks.training import job as attempt
from tasks.training.module import TrainingModule
from tests.faults import orchestrator as sweep
from tests.faults.count import Count
from tests.faults.small import compare, freeze
from tests.policies import policy
from tests.tasks.jobs import last_words

STEP = 10  # where a sabotaged job goes wrong
LARGEST_FILE = 2**15  # bytes: more than its rows of metrics take, less than a checkpoint


def hangs(source: Path, reference: dict[str, str | None], *, seed: int, count: int) -> Count:
    """A job that stops getting on while it lives and beats; every other one is deaf to SIGTERM."""
    tally = Count("hangs", seed)

    for number in range(count):
        watchdog = Watchdog(2.0, 1.0)
        hang = partial(_hang, deaf=number % 2 == 1)
        cause, log = _sabotaged(tally, source, reference, hang, watchdog)
        tally.complaints += cause != Cause.HANG or "most recent call first" not in log
    return tally


def out_of_memory(
    source: Path, reference: dict[str, str | None], *, seed: int, count: int
) -> Count:
    """A job whose address space is limited asks for more: told apart, and not tried again."""
    tally = Count("out of memory by rlimit", seed)

    def exhaust() -> None:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 2**26, used + 2**26))
        torch.zeros(2**33)

    for _ in range(count):
        cause, log = _sabotaged(tally, source, reference, exhaust, None)
        tally.complaints += cause != Cause.OUT_OF_HOST_MEMORY or "out_of_host_memory" not in log
    return tally


def file_limit(source: Path, reference: dict[str, str | None], *, seed: int, count: int) -> Count:
    """A job that may not make a file as large as a checkpoint: what it had saved stays whole."""
    tally = Count("checkpoint cut off by a limit on files", seed)

    def limit() -> None:
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, hard))

    for _ in range(count):
        cause, log = _sabotaged(tally, source, reference, limit, None)
        tally.complaints += cause != Cause.CRASH or "File too large" not in log
    return tally


def silent_ends(source: Path, reference: dict[str, str | None], *, seed: int) -> Count:
    """Jobs that end half way without a word: exit code 0, a crash in C, an exit by a library."""
    tally = Count("ends without a word", seed)
    ends: tuple[Callable[[], object], ...] = (
        lambda: os._exit(0),
        lambda: ctypes.string_at(0),
        lambda: _raise(SystemExit(0)),
    )
    for end in ends:
        cause, _ = _sabotaged(tally, source, reference, end, None)
        tally.complaints += cause not in (None, Cause.CRASH)
    return tally


def _sabotaged(
    tally: Count,
    source: Path,
    reference: dict[str, str | None],
    action: Callable[[], object],
    watchdog: Watchdog | None,
) -> tuple[str | None, str]:
    """A sweep whose first job does this at a step, then, if need be, the command again; what the
    first attempt said, and its log."""

    def sabotage(started: int) -> None:
        attempt.HEARTBEAT_SECONDS = 0.2  # type: ignore[attr-defined]
        if started == 0:
            _at_step(STEP, action)

    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        outputs = Path(folder) / "outputs"
        ids = freeze(source, outputs, len(reference))
        tally.injected += 1
        backend = sweep.ForkBackend(sabotage)
        once = policy(tries=3, equal_failures=0)
        sweep.orchestrate(outputs, ids, backend, policy=once, watchdog=watchdog)
        sweep.orchestrate(outputs, ids, sweep.ForkBackend(), policy=once)
        words = [pair for name in ids for pair in last_words(RunStore(outputs).run(name))]
        disturbed = [one for one, word in words if word.get("cause") != Cause.DONE]
        tally.hung += not disturbed
        compare(tally, outputs, reference)
        if not disturbed:
            return None, ""
        word = disturbed[0].exit()
        return (word["cause"] if word else None), disturbed[0].log_path.read_text()


def _hang(deaf: bool) -> None:
    if deaf:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    time.sleep(1e6)


def _at_step(number: int, action: Callable[[], object]) -> None:
    original = TrainingModule.training_step
    calls = 0

    @functools.wraps(original)
    def counted(*args: object, **kwargs: object) -> object:
        nonlocal calls
        calls += 1
        if calls == number:
            action()
        return original(*args, **kwargs)  # type: ignore[arg-type]

    TrainingModule.training_step = counted  # type: ignore[method-assign, assignment]


def _raise(error: BaseException) -> None:
    raise error
