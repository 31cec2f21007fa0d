"""Which runs share a GPU: by what each is predicted to take of its memory, and by what bounds it.

A run is placed once and never moved; one of which nothing is known has a GPU to itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

FILLED = 0.95
"""The part of a GPU's free memory that is given away."""
HOST_BOUND_FLOPS = 7.5e11
"""FLOPs of a step that a GPU has done (at 1e14 a second) once the host has launched the next: 7 to
8 ms for six layers. Inferred, not measured."""


class Share(NamedTuple):
    """What a run takes of a GPU that it shares.

    Attributes:
        gigabytes: of its memory, predicted.
        together: how many runs may be on it, this one included.
    """

    gigabytes: float
    together: int


def most_together(flops_per_step: float) -> int:
    """Return how many runs of such steps keep one GPU busy; more would only wait for each other."""
    return 3 if flops_per_step < HOST_BOUND_FLOPS else 2


def fits(share: Share | None, beside: Sequence[Share | None], free_gb: float) -> bool:
    """Whether a run may start on a GPU beside those that are there; on an empty one it may.

    `None` stands for a run of which nothing is known.
    """
    if not beside:
        return True
    known = [one for one in (share, *beside) if one is not None]
    if len(known) <= len(beside):
        return False
    together = min(one.together for one in known)
    return len(known) <= together and sum(one.gigabytes for one in known) <= FILLED * free_gb
