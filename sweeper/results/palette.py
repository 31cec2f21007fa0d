"""Colours and markers of arms, for figures and the report; imports no drawing library."""

from collections.abc import Iterable
from typing import NamedTuple

# Okabe and Ito: colours that people with any colour vision can distinguish, without yellow, which
# is too light on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


class ArmLook(NamedTuple):
    """Places in PALETTE and MARKERS; `single` points are hollow and not joined."""

    colour: int
    marker: int
    single: bool = False


def arm_looks(arms: Iterable[str]) -> dict[str, ArmLook]:
    """Return a look for each arm; `matched` has the colour of `fixed`, whose runs it resizes."""
    count = len(
        PALETTE
    )  # and of MARKERS: from the next arm on, colours have other markers
    found = {
        arm: ArmLook(place % count, (place + place // count) % count)
        for place, arm in enumerate(arms)
    }
    if {"fixed", "matched"} <= found.keys():
        found["matched"] = ArmLook(
            found["fixed"].colour, MARKERS.index("D"), single=True
        )
    return found
