"""The time until a set of runs has ended, given the seconds of each run."""

import heapq
from collections.abc import Mapping

from sweeper.store.runs import Run, State, Taken


def makespan(
    under_way: Mapping[str, float],
    waiting: Mapping[str, tuple[float, str | None]],
    slots: int,
) -> float:
    """Return the seconds until all runs have ended.

    Waiting runs start in order as slots become free, each after its parent.

    Args:
        under_way: the seconds left of each running job. There may be more jobs than slots.
        waiting: the seconds and the parent of each waiting run. A parent in neither mapping is
            done.
        slots: the number of runs at a time.
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
    """Return the seconds of a run that starts now, if a checkpoint has this share of its steps."""
    return whole.training * (1 - share) + whole.beside


def share_done(run: Run, steps: int) -> float:
    """Return the share of steps that a run need not repeat.

    Count the steps done if the run is running, else the steps of its newest checkpoint.
    """
    if not steps or not run.attempts():
        return 0.0
    status = run.status()
    if status.state is State.RUNNING:
        step: int = (status.heartbeat or {}).get("step", 0)
        return step / steps
    saved = (int(path.stem.removeprefix("step-")) for path in run.checkpoints())
    return max(saved, default=0) / steps
