"""Does a fixed head size win over head size = embedding size / heads, at equally many parameters?

Unlike `wins_at_equal_size`, on one arm alone: the mean over its points, which differ in width.
"""

from sweeper.results.design import Design, Statement, ahead


def claim(design: Design, *, standard: str = "standard", fixed: str = "fixed") -> Statement:
    """Compare the arms, whose points have equally many parameters."""
    return ahead(design, fixed, standard, "params_total")
