"""Do queries and keys a quarter of the values' size lose to one size for all, at an equal cache?

Published answers conflict; the paper's bottleneck is in queries and keys alone. Within the margin,
thin keys are no worse.
"""

from sweeper.results.design import Design, Statement, ahead


def claim(design: Design, *, full: str = "full", thin: str = "thin") -> Statement:
    """Compare the arms, whose points have one cache."""
    return ahead(design, full, thin, "cache_bytes_per_token")
