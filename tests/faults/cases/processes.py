"""Kills, stopped processes and several orchestrators: small sweeps without their command line."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from sweeper.store.metrics import read_metrics
from sweeper.store.runs import RunStore
from tests.faults import orchestrator as sweep
from tests.faults.count import Count
from tests.faults.small import compare, freeze

PATIENCE_S = 300.0


def kills(source: Path, reference: dict[str, str | None], *, seed: int, count: int) -> Count:
    """SIGKILL of orchestrators and workers in sweep after sweep, each hit a few times: what is done
    between two kills is random, and a fifth to a sixth of a sweep on average."""
    tally, rng = Count("SIGKILL of orchestrators and workers", seed), random.Random(seed)

    def disturb(outputs: Path, orchestrators: list[int]) -> None:
        _let_work(outputs, rng.randint(0, 80))
        time.sleep(rng.uniform(0.0, 0.05))
        if tally.injected >= count:
            return
        jobs = sweep.living(outputs)
        victim = rng.choice([*orchestrators, *jobs, *jobs])
        tally.injected += sweep.kill(victim)

    while tally.injected < count and not tally.hung:
        with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            _until_done(tally, source, Path(folder) / "outputs", reference, disturb)
    return tally


def zombies(source: Path, reference: dict[str, str | None], *, seed: int, count: int) -> Count:
    """Workers stopped for a while and let go again, their orchestrator killed meanwhile."""
    tally, rng = Count("SIGSTOP zombies", seed), random.Random(seed)

    def disturb(outputs: Path, orchestrators: list[int]) -> None:
        time.sleep(rng.uniform(0.1, 0.5))
        jobs = sweep.living(outputs)
        if not jobs or tally.injected >= count:
            return
        victim = rng.choice(jobs)
        tally.injected += sweep.kill(victim, signal.SIGSTOP)
        if rng.random() < 0.5:
            sweep.kill(rng.choice(orchestrators))
        time.sleep(rng.uniform(0.1, 0.6))
        sweep.kill(victim, signal.SIGCONT)

    while tally.injected < count and not tally.hung:
        with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            _until_done(tally, source, Path(folder) / "outputs", reference, disturb)
    return tally


def together(
    source: Path, reference: dict[str, str | None], *, seed: int, count: int, orchestrators: int
) -> Count:
    """Several orchestrators that set off at once, nothing else wrong."""
    tally = Count(f"{orchestrators} orchestrators at once", seed)
    for _ in range(count):
        with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            tally.injected += 1
            outputs = Path(folder) / "outputs"
            _until_done(
                tally, source, outputs, reference, lambda *_: time.sleep(0.05), number=orchestrators
            )
    return tally


def terminations(source: Path, reference: dict[str, str | None], *, seed: int, count: int) -> Count:
    """SIGTERM to workers at random moments, now and then twice."""
    tally, rng = Count("SIGTERM to workers, once and twice", seed), random.Random(seed)

    def disturb(outputs: Path, orchestrators: list[int]) -> None:
        time.sleep(rng.uniform(0.05, 0.4))
        jobs = sweep.living(outputs)
        if not jobs or tally.injected >= count:
            return
        victim = rng.choice(jobs)
        for _ in range(rng.choice([1, 1, 2])):
            tally.injected += sweep.kill(victim, signal.SIGTERM)

    while tally.injected < count and not tally.hung:
        with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            _until_done(tally, source, Path(folder) / "outputs", reference, disturb)
    return tally


def _until_done(
    tally: Count,
    source: Path,
    outputs: Path,
    reference: dict[str, str | None],
    disturb: Callable[[Path, list[int]], None],
    number: int = 1,
) -> None:
    """One sweep, started anew whenever its orchestrators are dead, until it has ended by itself."""
    ids = freeze(source, outputs, len(reference))
    assert set(ids) == set(reference)
    deadline = time.monotonic() + PATIENCE_S
    running: list[int] = []
    published: dict[str, bytes] = {}
    while not _all_done(outputs, ids) or running:
        if time.monotonic() > deadline:
            tally.hung += 1
            for pid in [*running, *sweep.living(outputs)]:
                sweep.kill(pid)
            break
        if not _all_done(outputs, ids):
            while len(running) < number:
                running.append(sweep.start(outputs, ids))
        disturb(outputs, running)
        running = [pid for pid in running if not sweep.ended(pid)]
        tally.overwritten += _changed(outputs, ids, published)
    while sweep.living(outputs) and time.monotonic() < deadline:
        time.sleep(0.05)
    tally.overwritten += _changed(outputs, ids, published)
    compare(tally, outputs, reference)


def _let_work(outputs: Path, batches: int) -> None:
    """Wait until so many more batches were done, or a while: kills are to hit work, not starts."""
    before, patience = _work(outputs), time.monotonic() + 3.0
    while _work(outputs) < before + batches and time.monotonic() < patience:
        time.sleep(0.01)


def _work(outputs: Path) -> int:
    store = RunStore(outputs)
    attempts = [a for name in store.ids() for a in store.run(name).attempts()]
    return sum(len(read_metrics(attempt.metrics_path)[0]) for attempt in attempts)


def _all_done(outputs: Path, ids: list[str]) -> bool:
    return all((outputs / "runs" / name / "result.json").exists() for name in ids)


def _changed(outputs: Path, ids: list[str], published: dict[str, bytes]) -> int:
    """How many results are not what they were when they were first seen."""
    changed = 0
    for name in ids:
        path = outputs / "runs" / name / "result.json"
        if os.path.lexists(path):
            content = path.read_bytes()
            changed += published.setdefault(name, content) != content
    return changed
