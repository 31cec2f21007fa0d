"""Do larger heads, as many as before, keep improving a model? The paper's Table 2(B), Figure 3b.

Parameters grow with the head size, so a gain does not say that they are best spent there.
"""

from sweeper.results.design import Design, Statement, keeps_improving


def claim(design: Design, *, fixed: str = "fixed") -> Statement:
    """On one arm, whose points differ in head size only."""
    return keeps_improving(design.of(fixed), "model.head_size", "head sizes")
