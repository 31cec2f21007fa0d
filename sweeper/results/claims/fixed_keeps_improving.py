"""Does a fixed head size keep improving with the number of heads?

The paper's Figure 1, Tables 2(A) and 3, and section 4.3.
"""

from sweeper.results.design import Design, Statement, keeps_improving


def claim(design: Design, *, fixed: str = "fixed") -> Statement:
    """On one arm, whose points differ in heads only."""
    return keeps_improving(design.of(fixed), "model.heads", "heads")
