"""Which runs share a GPU: by what each is predicted to take of its memory, and by what bounds it.

A run is placed once and never moved; one of which nothing is known has a GPU to itself.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sweeper.run.gpus import FRACTION, VARIABLE, Gpu

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


def at_a_time(shares: Iterable[Share | None]) -> int:
    """Return how many of these runs may be on one GPU at a time, where it has room for them."""
    known = [share.together for share in shares if share is not None]
    return max(1, min(len(known), max(known, default=1)))


def shareable(gpus: Sequence[Gpu]) -> dict[str, Gpu]:
    """GPUs by name, whose runs may share them by predicted memory; none where one's is unknown."""
    known = all(gpu.free_gb and not gpu.takes_one for gpu in gpus)
    return {gpu.id: gpu for gpu in gpus} if known else {}


@dataclass
class Places:
    """Slots on GPUs, or on none, and what the runs in them take.

    Attributes:
        gpus: those of each slot; several slots may have the same one.
        shared: by name, those whose memory decides who shares them.
        stagger_s: seconds that runs which share a GPU start apart.
    """

    gpus: Sequence[str]
    shared: Mapping[str, Gpu]
    stagger_s: float
    _shares: dict[int, Share | None] = field(default_factory=dict)  # of the last run in each slot
    _started: dict[int, float] = field(default_factory=dict)  # by slot, when that was

    def grant(self, share: Share | None, free: Sequence[int]) -> int | None:
        """The slot on the GPU that has the fewest runs, of those that have room for this one."""
        beside = {slot: self._beside(slot, free) for slot in free if self._rested(slot)}
        fitting = [slot for slot in beside if self._fits(share, slot, beside[slot])]
        slot = min(fitting, key=lambda slot: len(beside[slot]), default=None)
        if slot is not None:
            self._shares[slot] = share
        return slot

    def start(self, slot: int) -> dict[str, str]:
        """The environment of the run that was granted a slot and starts now: its GPUs, or none, and
        what it may take of one. (A run that is told of no GPUs would take the first there is.)"""
        self._started[slot] = time.monotonic()
        return {VARIABLE: self.gpus[slot], **self._limit(slot)}

    def _rested(self, slot: int) -> bool:
        """On a GPU that runs share they start apart: what a start takes for a while is the most."""
        own = self.gpus[slot]
        here = [at for other, at in self._started.items() if self.gpus[other] == own]
        return not own or time.monotonic() - max(here, default=-math.inf) >= self.stagger_s

    def _beside(self, slot: int, free: Sequence[int]) -> list[Share | None]:
        """What the runs on the GPU of a slot take of it."""
        others = (other for other in range(len(self.gpus)) if other not in free)
        own = self.gpus[slot]
        return [self._shares.get(other) for other in others if own and self.gpus[other] == own]

    def _fits(self, share: Share | None, slot: int, beside: Sequence[Share | None]) -> bool:
        gpu = self.shared.get(self.gpus[slot])
        return gpu is None or fits(share, beside, gpu.free_gb or 0)

    def _limit(self, slot: int) -> dict[str, str]:
        """A run that takes more than was predicted is to harm itself and none beside it."""
        gpu, share = self.shared.get(self.gpus[slot]), self._shares.get(slot)
        if gpu is None or share is None or not gpu.memory_gb:
            return {}
        return {FRACTION: f"{min(1.0, share.gigabytes / gpu.memory_gb):.4f}"}
