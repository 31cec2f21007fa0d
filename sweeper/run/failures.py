"""What to do when a job has ended without a result."""

from __future__ import annotations

from sweeper.store.runs import State, Status

# A job that was cut off (killed, preempted) resumes from its checkpoint; one that is cut off this
# often in one sweep is being killed by something that a further try does not mend.
TRIES = 3


def try_again(status: Status, tries: int) -> bool:
    """Whether a run that ended in `status` after `tries` starts of this sweep is started again.

    A failure of its own (NaN, out of memory, an exception) would only repeat itself: every run is
    deterministic.
    """
    return status.state is State.INTERRUPTED and tries < TRIES
