"""What the claims share: what they say, what was measured of it, and what follows.

design         contrasts of points, and the statements that combine them
measurements   values seed by seed, on the scale that is judged
question       a statement asked of measurements: its answer, and what one would cost
verdict        the answer, as data and in words
"""
