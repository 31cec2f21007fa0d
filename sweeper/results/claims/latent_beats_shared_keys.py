"""Does latent attention win over heads that share keys and values, at an equal cache?

Published comparisons disagree (TransMLA 2025 against replications). Parameters are equal, too.
"""

from sweeper.results.design import Design, Statement, ahead


def claim(design: Design, *, shared: str = "shared", latent: str = "latent") -> Statement:
    """Compare the arms, whose points have one cache."""
    ahead(design, latent, shared, "params_total")
    return ahead(design, latent, shared, "cache_bytes_per_token")
