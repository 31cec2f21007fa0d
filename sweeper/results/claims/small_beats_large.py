"""Does a model with a small embedding and heads of a fixed size beat the largest standard model?

The paper's Figure 1b, in its strict form: the rival is the best standard model at the largest
embedding size, and only models with a smaller embedding and no more parameters in total compete.
"""

from sweeper.results.design import Design, Statement, Unanswerable, at, curves, over
from sweeper.results.points import Point
from sweeper.results.statistics.sequential import All, AnyOf
from sweeper.store.numbers import plural

EMBEDDING = "model.embedding_size"
# Heads are whole numbers, so a model matched to the rival may be larger by a hair.
SAME_SIZE = 1.01


def claim(
    design: Design, *, standard: str = "standard", fixed: str = "fixed", matched: str = "matched"
) -> Statement:
    """On the points of `fixed`, and of `matched` if the experiment has it."""
    small = [fixed, matched] if matched in design.arms else [fixed]
    largest, rivals = curves(EMBEDDING, design.of(standard)).popitem()
    limit = min(at(rival, "params_total") for rival in rivals) * SAME_SIZE
    strict = {
        tuple(point.runs.values()): point
        for point in design.of(*small)
        if at(point, EMBEDDING) < largest and at(point, "params_total") <= limit
    }
    if not strict:
        raise Unanswerable(
            "No model with fixed head size and a smaller embedding has as few parameters as a "
            f"standard one of embedding size {largest:.0f}."
        )
    return AnyOf(
        tuple(
            All(tuple(over(one, rival, f"{_model(one)} over {_model(rival)}") for rival in rivals))
            for one in strict.values()
        )
    )


def _model(point: Point) -> str:
    heads = plural(int(at(point, "model.heads")), "head")
    size = at(point, "model.head_size")
    return f"{heads} of {size:.0f} at embedding size {at(point, EMBEDDING):.0f}"
