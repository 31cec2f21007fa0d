"""The sentences below a figure."""

import math
from collections.abc import Sequence

from sweeper.results.judge import terms_in_words
from sweeper.results.paper_tables import baselines
from sweeper.results.points import (
    Point,
    Spreads,
    caveats,
    marks_in_words,
    not_learned,
    origin,
    standing,
)
from sweeper.results.table import Table, label, number


def notes_on(table: Table, points: Sequence[Point], *spreads: Spreads) -> list[str]:
    """Return the notes of a figure: its marks, the matching of sizes, and missing runs.

    Args:
        table: the drawn table.
        points: the points that are drawn.
        spreads: the spreads that their intervals rest on.
    """
    return [
        *origin(table),
        *marks_in_words(points, *spreads),
        *_matches(table),
        *baselines(table),
        *standing(table),
        *not_learned(table),
        *terms_in_words(table),
        *caveats(table),
    ]


def _matches(table: Table) -> list[str]:
    """Return a sentence on the largest error of matching for each count that was matched."""
    worst: dict[str, float] = {}
    for row in table.rows:
        error = number(row.get("match_error"))
        if error is not None:
            count = str(row["match_count"])
            worst[count] = max(worst.get(count, 0.0), abs(error))

    return [
        f"Matched points have the {label(count)} of what they are matched to within "
        f"{max(math.ceil(error * 1e4) / 100, 0.01):.2f} %."
        for count, error in sorted(worst.items())
    ]
