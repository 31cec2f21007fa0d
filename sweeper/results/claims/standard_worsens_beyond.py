"""Does the standard heuristic, head size = embedding size / heads, get worse beyond some heads?

The paper's Figure 1a and Table 1. Asked of models that differ in heads only: at each embedding
size, with as many parameters and one feed-forward size, the largest number of heads against the
smaller ones. The claim is supported if it is worse than some of them at every embedding size.
"""

from sweeper.results.design import Design, Statement, curves, most_heads_lose


def claim(design: Design, *, standard: str = "standard") -> Statement:
    """On one arm, whose points differ in embedding size and heads."""
    alike = [
        (f"embedding size {embedding:.0f}", models)
        for embedding, of_one_size in curves("model.embedding_size", design.of(standard)).items()
        for equally_large in curves("params_total", of_one_size).values()
        for models in curves("model.feedforward_size", equally_large).values()
    ]
    return most_heads_lose(alike, "embedding size, number of parameters and feed-forward size")
