"""The metric over the experiment's x, a curve for each arm and each setting of what else varies."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib import rc_context
from matplotlib.figure import Figure

from sweeper.results.figures.frame import Entry, frame, notes_on
from sweeper.results.figures.panel import Look, ends_fit, label_ends, prepare, scale
from sweeper.results.figures.series import Series, marks, split
from sweeper.results.figures.style import COLUMN, MARKERS, PALETTE, RC, blank, plain, ramp
from sweeper.results.points import Point, points, seed_spread
from sweeper.results.table import Table

_PANEL_PT, _ROOM = 165.0, (180.0, 130.0)
_MOST_ENTRIES = 12
