"""Estimate when a set of runs will have ended, given the duration of each run."""

import heapq
from collections import defaultdict
from collections.abc import Mapping

from sweeper.store.runs import Run, State, Taken


def makespan(
    under_way: Mapping[str, float],
    waiting: Mapping[str, tuple[float, str | None]],
    slots: int,
) -> float:
    """Return the seconds until all runs have ended.

    A waiting run can start when its parent has ended and a slot is free. If several runs can start,
    the first of them in `waiting` gets the slot.

    Args:
        under_way: how many seconds each running job has left. There may be more jobs than slots.
        waiting: the duration in seconds and the parent of each waiting run. A parent that is in
            neither mapping has ended.
        slots: the number of runs that execute at the same time.
    """
    slots = max(slots, len(under_way))
    ends = sorted((seconds, run) for run, seconds in under_way.items())
    children: dict[str | None, list[int]] = defaultdict(list)
    ready, runs = [], list(waiting)
    for place, (_, parent) in enumerate(waiting.values()):
        if parent in under_way or parent in waiting:
            children[parent].append(place)
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
        for place in children[ended]:
            heapq.heappush(ready, place)


def remaining(duration: Taken, share: float) -> float:
    """Return the seconds that a run takes from a checkpoint to its end.

    Args:
        duration: the duration of the whole run.
        share: the fraction of the run's steps before the checkpoint.
    """
    return duration.training * (1 - share) + duration.overhead


def share_done(run: Run, steps: int) -> float:
    """Return the fraction of a run's steps that are done. `steps` is the number of all its steps.

    If no process trains the run, count only the steps before its newest checkpoint.
    """
    if not steps or not run.attempts():
        return 0.0
    status = run.status()
    if status.state is State.RUNNING:
        step: int = (status.heartbeat or {}).get("step", 0)
        return step / steps
    saved = (int(path.stem.removeprefix("step-")) for path in run.checkpoints())
    return max(saved, default=0) / steps
