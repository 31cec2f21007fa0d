"""Is a larger head worth more where sequences are longer? What Theorem 1 implies of its n.

The trend over lengths of the trend over head sizes: what a longer context is worth by itself
cancels out.
"""

from sweeper.results.design import Contrast, Design, Statement, Unanswerable, at, by, curves, slopes

LENGTH, HEAD_SIZE = "task.sequence_length", "model.head_size"


def claim(design: Design, *, heads: str = "heads") -> Statement:
    """On one arm, whose points differ in sequence length and head size."""
    lengths = {
        length: {at(point, HEAD_SIZE): point for point in by(HEAD_SIZE, curve)}
        for length, curve in curves(LENGTH, design.of(heads)).items()
    }
    shared = sorted(set.intersection(*(set(curve) for curve in lengths.values())))
    if len(lengths) < 2 or len(shared) < 2:
        raise Unanswerable("The claim needs two sequence lengths with two head sizes each.")
    weights = [
        (across * along, lengths[length][size])
        for length, across in zip(lengths, slopes(list(lengths)), strict=True)
        for size, along in zip(shared, slopes(shared), strict=True)
    ]
    words = (
        f"from heads of {shared[0]:.0f} to {shared[-1]:.0f} at n = {max(lengths):.0f}, and not at "
        f"n = {min(lengths):.0f},"
    )
    return Contrast(words, weights)
