"""Cases with killed, stopped and competing processes, in small sweeps without a command line."""

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

from sweeper.store.metrics import read_metrics
from tests.faults import sweep
from tests.faults.sweep import Count, Setting, small_sweep

PATIENCE_S = 300.0
STOPPED = 30

Disturb = Callable[[Path, list[int]], None]
"""Disturbs a sweep once, given its outputs and the pids of its orchestrators."""


def kills(setting: Setting, *, faults: int) -> Count:
    """Kill orchestrators and workers with SIGKILL, a few times in each sweep.

    The work between two kills is random, on average a fifth to a sixth of a sweep.
    """
    count = Count("SIGKILL of orchestrators and workers", setting.seed)
    rng = random.Random(setting.seed)

    def disturb(outputs: Path, orchestrators: list[int]) -> None:
        # Wait until some more steps are done, or a while: kills shall hit work, not starts.
        goal = work_done(outputs) + rng.randint(0, 80)
        deadline = time.monotonic() + 3.0
        while work_done(outputs) < goal and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(rng.uniform(0.0, 0.05))
        if count.injected < faults:
            jobs = [*sweep.living(outputs)]
            count.injected += sweep.kill(rng.choice([*orchestrators, *jobs, *jobs]))

    return repeated(setting, count, faults, disturb)


def zombies(setting: Setting) -> Count:
    """Stop workers for a while, and sometimes kill their orchestrator meanwhile."""
    count, rng = Count("SIGSTOP zombies", setting.seed), random.Random(setting.seed)

    def disturb(outputs: Path, orchestrators: list[int]) -> None:
        time.sleep(rng.uniform(0.1, 0.5))
        jobs = [*sweep.living(outputs)]
        if not jobs or count.injected >= STOPPED:
            return
        victim = rng.choice(jobs)
        count.injected += sweep.kill(victim, signal.SIGSTOP)
        if rng.random() < 0.5:
            sweep.kill(rng.choice(orchestrators))
        time.sleep(rng.uniform(0.1, 0.6))
        sweep.kill(victim, signal.SIGCONT)

    return repeated(setting, count, STOPPED, disturb)


def together(setting: Setting, orchestrators: int) -> Count:
    """Start several orchestrators at once, and disturb nothing else."""
    count = Count(f"{orchestrators} orchestrators at once", setting.seed)
    for _ in range(5):
        count.injected += 1
        until_done(setting, count, lambda *_: time.sleep(0.05), orchestrators)
    return count


def repeated(setting: Setting, count: Count, faults: int, disturb: Disturb) -> Count:
    """Disturb sweep after sweep until this number of faults is reached."""
    while count.injected < faults and not count.hung:
        until_done(setting, count, disturb)
    return count


def until_done(
    setting: Setting, count: Count, disturb: Disturb, orchestrators: int = 1
) -> None:
    """Disturb one sweep until it is done; start its orchestrators again when they are dead."""
    with small_sweep(setting, count) as (outputs, ids):
        results = {name: outputs / "runs" / name / "result.json" for name in ids}
        published: dict[str, bytes] = {}

        def check_results() -> None:
            for name, path in results.items():
                if os.path.lexists(path):
                    content = path.read_bytes()
                    count.overwritten += published.setdefault(name, content) != content

        deadline = time.monotonic() + PATIENCE_S
        running: list[int] = []
        while not (done := all(path.exists() for path in results.values())) or running:
            if time.monotonic() > deadline:
                count.hung += 1
                for pid in [*running, *sweep.living(outputs)]:
                    sweep.kill(pid)
                break
            while not done and len(running) < orchestrators:
                running.append(sweep.start(outputs, ids))
            disturb(outputs, running)
            running = [pid for pid in running if not os.waitpid(pid, os.WNOHANG)[0]]
            check_results()
        while sweep.living(outputs) and time.monotonic() < deadline:
            time.sleep(0.05)
        check_results()


def work_done(outputs: Path) -> int:
    """Return the number of rows of metrics that all attempts have written."""
    return sum(len(read_metrics(one.metrics_path)) for one in sweep.attempts(outputs))
