"""Does normalising queries and keys undo what larger heads win, at equal width?

If larger heads win because their logits are larger or better scaled, a norm gives small heads the
same. The gain of larger heads without the norm, less that with it.
"""

from sweeper.results.design import Design, Statement, larger_heads_gain_more


def claim(design: Design, *, plain: str = "plain", normed: str = "normed") -> Statement:
    """On two arms with the same heads and head sizes."""
    return larger_heads_gain_more(design, plain, normed)
