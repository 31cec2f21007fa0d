"""The colours and markers of arms, in figures and on the report page.

This module does not import matplotlib, which is slow.
"""

from collections.abc import Iterable
from typing import NamedTuple

# The colours of Okabe and Ito, which readers with any colour vision can distinguish. Their yellow
# is left out because it is too light on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


class ArmLook(NamedTuple):
    """The look of an arm: its colour and marker, as indices in PALETTE and MARKERS.

    If `single` is True, markers are hollow and no line joins them.
    """

    colour: int
    marker: int
    single: bool = False


def arm_looks(arms: Iterable[str]) -> dict[str, ArmLook]:
    """Return a look for each arm.

    The arm `matched` has the colour of the arm `fixed`, because its points are resized points of
    that arm.
    """
    # PALETTE and MARKERS are equally long. When colours repeat, shift the markers by one, so that
    # arms of one colour have different markers.
    count = len(PALETTE)
    found = {
        arm: ArmLook(place % count, (place + place // count) % count)
        for place, arm in enumerate(arms)
    }
    if {"fixed", "matched"} <= found.keys():
        found["matched"] = ArmLook(
            found["fixed"].colour, MARKERS.index("D"), single=True
        )
    return found
