"""Is a growing number of heads worth more where heads are large than where they are bottlenecked?

What the low-rank bottleneck implies (the paper's section 3): a head below it cannot express what it
should, however many there are. For each arm of small heads, the trend of the large heads over their
number, less the trend of the small ones: what a number of heads is worth at any size cancels out.
A large head also has more parameters than a small one; `small_heads_lose_at_equal_width` asks at
equally many.
"""

from sweeper.results.design import (
    Contrast,
    Design,
    Statement,
    Unanswerable,
    alone,
    at,
    trends_apart,
)
from sweeper.results.statistics.sequential import All


def claim(design: Design, *, large: str = "large") -> Statement:
    """On this arm and every other, which have small heads; points differ in heads only."""
    small = [arm for arm in design.arms if arm != large]
    if not small:
        raise Unanswerable("The claim needs an arm of small heads.")
    parts = []
    for arm in small:
        pair = alone("model.heads", design.of(large)), alone("model.heads", design.of(arm))
        shared, weights = trends_apart(*pair, "model.heads")
        sizes = [at(own[0], "model.head_size") for own in pair]
        words = (
            f"from {shared[0]:.0f} to {shared[-1]:.0f} heads with heads of {sizes[0]:.0f}, and not "
            f"with heads of {sizes[1]:.0f},"
        )
        parts.append(Contrast(words, weights))
    return All(tuple(parts))
