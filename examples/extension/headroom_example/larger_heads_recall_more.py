"""A claim that larger heads recall more, judged by the trend over all head sizes of an arm."""

from __future__ import annotations

from sweeper.results.design import Design, Statement, Unanswerable, by, trend

COLUMN = "model.head_size"


def claim(design: Design, *, heads: str = "heads") -> Statement:
    """Do larger heads recall more?

    `heads` is the name of an arm whose points differ only in head size.
    """
    points = by(COLUMN, design.of(heads))
    if len(points) < 2:
        raise Unanswerable("The claim needs at least two head sizes.")
    return trend(points, COLUMN, "larger heads over smaller ones")
