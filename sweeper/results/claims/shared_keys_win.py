"""Do many heads that share keys and values win over few heads with their own, at an equal cache?

Grouped-query attention, against as many heads as there are shared keys. Parameters are equal, too.
"""

from sweeper.results.design import Design, Statement, ahead


def claim(design: Design, *, own: str = "own", shared: str = "shared") -> Statement:
    """Compare the arms, whose points have one cache."""
    ahead(design, shared, own, "params_total")
    return ahead(design, shared, own, "cache_bytes_per_token")
