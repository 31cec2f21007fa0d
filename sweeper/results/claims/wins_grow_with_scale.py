"""Do heads of a fixed size win more at equal size, the more compute training takes?

Beyond the paper. The trend over scales, in the logarithm of their training FLOPs, of what fixed
heads win over the standard heuristic in pairs of equal size (`wins_at_equal_size` at each scale).
"""

from sweeper.results.claims import wins_at_equal_size
from sweeper.results.design import Contrast, Design, Statement, Unanswerable, flops, scales, slopes
from sweeper.store.numbers import short


def claim(design: Design, *, standard: str = "standard") -> Statement:
    """On the arm `standard` and those matched with it, at each number of training steps."""
    every = scales(design.of(*design.arms))
    if len(every) < 2:
        raise Unanswerable("The claim needs two numbers of training steps.")
    weights = []
    for scale, slope in zip(every, slopes([flops(scale) for scale in every]), strict=True):
        own = Design(scale, design.metric, ratios=design.ratios)
        won = wins_at_equal_size.claim(own, standard=standard)
        assert isinstance(won, Contrast)
        weights += [(slope * weight, point) for weight, point in won.weights]
    times = flops(every[-1]) / flops(every[0])
    return Contrast(f"what fixed heads win with {short(times, 2)} times the compute", weights)
