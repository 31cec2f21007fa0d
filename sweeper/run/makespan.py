"""The time until a set of runs has ended, given the duration of each run."""

import heapq
from collections.abc import Mapping

from sweeper.store.runs import Run, State, Taken


def makespan(
    under_way: Mapping[str, float],
    waiting: Mapping[str, tuple[float, str | None]],
    slots: int,
) -> float:
    """Return the seconds until all runs have ended.

    Waiting runs start in order when a slot is free and their parent has ended.

    Args:
        under_way: the seconds left of each running job. There may be more jobs than slots.
        waiting: the seconds and the parent of each waiting run. A parent that is in neither mapping
            has ended.
        slots: the number of runs that execute at the same time.
    """
    slots = max(slots, len(under_way))
    ends = sorted((seconds, run) for run, seconds in under_way.items())
    children: dict[str, list[int]] = {}
    ready, runs = [], list(waiting)
    for place, (_, parent) in enumerate(waiting.values()):
        if parent in under_way or parent in waiting:
            children.setdefault(str(parent), []).append(place)
        else:
            ready.append(place)
    now = 0.0
    while True:
        while ready and len(ends) < slots:
            run = runs[heapq.heappop(ready)]
            heapq.heappush(ends, (now + waiting[run][0], run))
        if not ends:
            return now
        now, ended = heapq.heappop(ends)
        for place in children.get(ended, ()):
            heapq.heappush(ready, place)


def remaining(whole: Taken, share: float) -> float:
    """Return the seconds that a run takes if it starts from a checkpoint.

    `share` is the share of its steps that the checkpoint has done.
    """
    return whole.training * (1 - share) + whole.beside


def share_done(run: Run, steps: int) -> float:
    """Return the share of a run's steps that need not be repeated.

    If the run is in training, count all steps so far. Otherwise count the steps of its newest
    checkpoint.
    """
    if not steps or not run.attempts():
        return 0.0
    status = run.status()
    if status.state is State.RUNNING:
        step: int = (status.heartbeat or {}).get("step", 0)
        return step / steps
    saved = (int(path.stem.removeprefix("step-")) for path in run.checkpoints())
    return max(saved, default=0) / steps
