"""Cases with jobs that hang, exceed a limit on files, or end without a message."""

import ctypes
import os
import resource
import signal
import time
from collections.abc import Callable
from typing import Any, NoReturn

from sweeper.run.failures import Watchdog
from sweeper.store.attempts import Cause
from sweeper.store.runs import RunStore
from tasks.module import TaskModule
from tasks.training import job
from tests.faults.sweep import Count, ForkBackend, Setting, orchestrate, small_sweep
from tests.policies import policy
from tests.tasks.jobs import at_call, last_words

STEP = 10  # at which a job is sabotaged
LARGEST_FILE = 2**15  # bytes: more than the metrics take, less than a checkpoint


def hangs(setting: Setting) -> Count:
    """Stop a job from training while its heartbeat goes on; every other one ignores SIGTERM."""
    count = Count("hangs", setting.seed)

    def hang() -> None:
        if count.injected % 2 == 0:
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        time.sleep(1e6)

    for _ in range(2):
        cause, log = sabotaged(setting, count, hang, Watchdog(2.0, 1.0))
        count.complaints += cause != Cause.HANG or "most recent call first" not in log
    return count


def file_limit(setting: Setting) -> Count:
    """Forbid files as large as a checkpoint; the checkpoints saved before stay intact."""
    count = Count("checkpoint cut off by a limit on files", setting.seed)

    def limit() -> None:
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, hard))

    cause, log = sabotaged(setting, count, limit)
    count.complaints += cause != Cause.CRASH or "File too large" not in log
    return count


def silent_ends(setting: Setting) -> Count:
    """End jobs half-way without a message: exit code 0, a crash in C, SystemExit of a library."""
    count = Count("ends without a word", setting.seed)

    def leave() -> NoReturn:
        raise SystemExit(0)

    for end in (lambda: os._exit(0), lambda: ctypes.string_at(0), leave):
        cause, _ = sabotaged(setting, count, end)
        count.complaints += cause not in (None, Cause.CRASH)
    return count


def sabotaged(
    setting: Setting,
    count: Count,
    action: Callable[[], Any],
    watchdog: Watchdog | None = None,
) -> tuple[str | None, str]:
    """Run a sweep whose first job does this at a step, then run it again.

    Returns:
        The cause that the disturbed attempt gave at its end, if any, and its log.
    """

    def sabotage(started: int) -> None:
        job.HEARTBEAT_SECONDS = 0.2  # type: ignore[attr-defined]
        if started == 0:
            at_call(TaskModule, "training_step", STEP, action)

    count.injected += 1
    with small_sweep(setting, count) as (outputs, ids):
        three = policy(equal_failures=0)
        orchestrate(
            outputs, ids, ForkBackend(sabotage), policy=three, watchdog=watchdog
        )
        orchestrate(outputs, ids, ForkBackend(), policy=three)
        words = [
            pair for name in ids for pair in last_words(RunStore(outputs).run(name))
        ]
        for attempt, word in words:
            if word.get("cause") != Cause.DONE:
                return word.get("cause"), attempt.log_path.read_text()
        count.hung += 1
        return None, ""
