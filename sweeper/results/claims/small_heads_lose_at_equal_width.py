"""Do many small heads lose to fewer large ones where heads * head size, so all size, is equal?

What the paper's argument says beyond its tables, which change width and head size together. The
claim is supported if the smallest heads are worse than some of the larger at every width.
"""

from sweeper.results.design import Design, Statement, check_equal, curves, most_heads_lose


def claim(design: Design) -> Statement:
    """On all arms, whose points differ in heads and head size, or in width too."""
    widths = curves("width", design.of(*design.arms))
    for width, same in widths.items():
        check_equal(same, "params_total", f"Models of width {width:.0f}")
    return most_heads_lose(
        [(f"width {width:.0f}", same) for width, same in widths.items()], "width"
    )
