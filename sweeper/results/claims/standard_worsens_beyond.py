"""Does the standard heuristic, head size = embedding size / heads, get worse beyond some heads?

The paper's Figure 1a and Table 1. Asked at each embedding size: the largest number of heads against
the smaller ones. The claim is supported if it is worse than some of them at every embedding size.
"""

from __future__ import annotations

from sweeper.results.design import Design, Statement, curves, most_heads_lose


def claim(design: Design, *, standard: str = "standard") -> Statement:
    """On one arm, whose points differ in embedding size and heads."""
    sizes = curves("model.embedding_size", design.of(standard))
    return most_heads_lose(sizes, "embedding size")
