"""Does an arm win over the standard one at the matched size? Figures 1 and 3a match parameters.

Every point that was matched is compared with the point it was matched to.
"""

from sweeper.results.design import Contrast, Design, Statement, Unanswerable
from sweeper.results.points import Point
from sweeper.results.table import label
from sweeper.store.numbers import plural


def claim(design: Design, *, standard: str = "standard") -> Statement:
    """Compare all pairs with one point in `standard`; the mean over the pairs decides.

    In an experiment without such an arm, the rival is the arm whose points are matched.
    """
    every = design.of(*design.arms)
    matched = [point for point in every if point.cells.get("matched_to")]
    rival = standard if standard in design.arms else next((p.arm for p in matched), standard)
    by_name = {f"{point.arm} {point.name}".strip(): point for point in every}
    weights: list[tuple[float, Point]] = []
    counts: set[str] = set()
    for point in every:
        target = by_name.get(str(point.cells.get("matched_to")))
        if target is None or (point.arm == rival) == (target.arm == rival):
            continue
        own, other = (point, target) if point.arm == rival else (target, point)
        if own.runs != other.runs:
            weights += [(1.0, other), (-1.0, own)]
            counts.add(label(str(point.cells["match_count"])))
    if not weights:
        raise Unanswerable(f"No point of {rival} is matched to another, or another to it.")
    pairs = len(weights) // 2
    equal = " or ".join(sorted(counts))
    others = " and ".join(dict.fromkeys(point.arm for weight, point in weights if weight > 0))
    words = f"over {plural(pairs, 'pair')} with equal {equal}, {others} over {rival}"
    return Contrast(words, [(weight / pairs, point) for weight, point in weights])
