"""The sentences below a figure."""

import math
from collections.abc import Sequence

from sweeper.results.judge import decidable
from sweeper.results.points import Point, Spreads
from sweeper.results.remarks import (
    caveats,
    marks_in_words,
    not_learned,
    origin,
    scores_of_baselines,
    standing,
)
from sweeper.results.table import Table, label, number


def notes_on(table: Table, points: Sequence[Point], *spreads: Spreads) -> list[str]:
    """Return the sentences below a figure, for example on its marks and on missing runs.

    Args:
        table: the drawn table.
        points: the drawn points.
        spreads: the spreads of their intervals.
    """
    terms = dict.fromkeys(str(one.terms) for one in decidable(table))
    return [
        *origin(table),
        *marks_in_words(points, *spreads),
        *_matches(table),
        *scores_of_baselines(table),
        *standing(table),
        *not_learned(table),
        *terms,
        *caveats(table),
    ]


def _matches(table: Table) -> list[str]:
    """Return a sentence on the largest matching error, for each count that was matched."""
    worst: dict[str, float] = {}
    for row in table.rows:
        error = number(row.get("match_error"))
        if error is not None:
            count = str(row["match_count"])
            worst[count] = max(worst.get(count, 0.0), abs(error))

    return [
        f"Matched points and their targets have equal {label(count)} within "
        f"{max(math.ceil(error * 1e4) / 100, 0.01):.2f} %."
        for count, error in sorted(worst.items())
    ]
