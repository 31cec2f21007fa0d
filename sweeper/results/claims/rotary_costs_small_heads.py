"""Do small heads lose more under rotary positions than under sinusoidal ones, at equal width?

A rotation spends a head's numbers on positions, so that fewer are left for content. The gain of
larger heads under rotary positions, less that under sinusoids.
"""

from sweeper.results.design import Design, Statement, larger_heads_gain_more


def claim(design: Design, *, sinusoidal: str = "sinusoidal", rotary: str = "rotary") -> Statement:
    """On two arms with the same heads and head sizes."""
    return larger_heads_gain_more(design, rotary, sinusoidal)
