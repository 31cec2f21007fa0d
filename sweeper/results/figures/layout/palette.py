"""How arms are told apart, on paper and on the page; plain data, no drawing library."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

# Okabe and Ito: eight colours that people with any colour vision tell apart (yellow left out, which
# white swallows).
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LIGHTEST = 0.4  # of an arm's colour, in the first of its curves; the last has all of it


class ArmLook(NamedTuple):
    """Places in PALETTE and MARKERS; `single` points are hollow and not joined."""

    colour: int
    marker: int
    single: bool = False


def arm_looks(arms: Iterable[str]) -> dict[str, ArmLook]:
    """A look for each arm; points that are `matched` are the `fixed` arm's, at other sizes."""
    found = {
        arm: ArmLook(place % len(PALETTE), place % len(MARKERS)) for place, arm in enumerate(arms)
    }
    if {"fixed", "matched"} <= found.keys():
        found["matched"] = ArmLook(found["fixed"].colour, MARKERS.index("D"), single=True)
    return found


def shade(place: int, count: int) -> float:
    """How much of its arm's colour the curve at a place has, of so many."""
    return LIGHTEST + (1 - LIGHTEST) * place / (count - 1) if count > 1 else 1.0
