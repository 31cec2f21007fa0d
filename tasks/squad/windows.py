"""A long text as overlapping windows, as BERT's run_squad cuts it. Everything counts in pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Window(NamedTuple):
    """A stretch of a text: its first piece, and how many there are."""

    first: int
    length: int


def windows(length: int, room: int, stride: int) -> list[Window]:
    """Cover a text of `length` pieces by windows of at most `room`, each `stride` after the last.

    None for a text without pieces. A stride above the room would leave pieces out, and is cut.
    """
    found, first = [], 0
    while first < length:
        found.append(Window(first, min(length - first, room)))
        if first + room >= length:
            break
        first += min(room, stride)
    return found


def best_windows(cut: Sequence[Window], length: int) -> NDArray[np.int64]:
    """Return, for each piece of the text, (length,), the window where it has the most context.

    That is the one with the longest shorter side, plus a hundredth of the window; of equals the
    first.
    """
    pieces = np.arange(length)
    first = np.array([[window.first] for window in cut])
    size = np.array([[window.length] for window in cut])
    before, after = pieces - first, first + size - 1 - pieces
    context = np.minimum(before, after) + 0.01 * size
    context[(before < 0) | (after < 0)] = -np.inf
    return context.argmax(axis=0)


def covered(offsets: NDArray[np.integer], start: int, end: int) -> tuple[int, int] | None:
    """Return the first and the last piece that hold characters from `start` to `end`.

    offsets: (pieces, 2), where each piece begins and ends in the text, in order. None where no
    piece does.
    """
    first = int(np.searchsorted(offsets[:, 1], start, side="right"))
    last = int(np.searchsorted(offsets[:, 0], end, side="left")) - 1
    return (first, last) if first <= last else None
