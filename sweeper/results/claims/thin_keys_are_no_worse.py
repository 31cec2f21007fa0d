"""Are queries and keys a quarter of the values' size no worse than all of one size, at equal cache?

Asked because published answers conflict: the paper's bottleneck is in queries and keys alone. No
worse means better, or different by less than the margin.
"""

from __future__ import annotations

from dataclasses import replace

from sweeper.results.design import Design, Statement, ahead
from sweeper.results.statistics.sequential import AnyOf


def claim(design: Design, *, full: str = "full", thin: str = "thin") -> Statement:
    """Compare the arms, whose points have one cache."""
    better = ahead(design, thin, full, "cache_bytes_per_token")
    return AnyOf((better, replace(better, same=True)))
