"""Do heads of a fixed size reach the loss of the standard heuristic with fewer parameters?

The paper's Figures 1 and 4 read sideways: power laws of loss over parameters are fitted to both
arms and compared at the lowest loss that both have measured.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import asdict, replace

from sweeper.results.claims.evidence.verdict import Answer, Evidence, Verdict, decided, in_words
from sweeper.results.statistics.estimates import LEVEL, Spread, mean
from sweeper.results.statistics.power_law import Curve, Saving, saved
from sweeper.results.table.points import Point, points, seed_spread
from sweeper.results.table.table import Table
from sweeper.store.numbers import short

CLAIM = "saves_parameters"


def check(table: Table, *, standard: str = "standard", fixed: str = "fixed") -> Verdict:
    """The verdict on two arms; the standard one at the number of heads that is best for it."""
    evidence = Evidence(table, [standard, fixed])
    losses = _losses(table)
    if losses is None:
        sentence = f"The claim is about a loss, which {evidence.words} is not."
        return evidence.verdict(CLAIM, Answer.UNDECIDED, sentence, {})
    found = _saving(losses, standard, fixed)
    if found is None:
        sentence = "No loss lies within the measured range of both arms, falling with size in both."
        return evidence.verdict(CLAIM, Answer.UNDECIDED, sentence, {})
    return evidence.verdict(CLAIM, decided(found.share), _told(found), asdict(found))


def _losses(table: Table) -> list[Point] | None:
    """The points in nats; None if the metric is no loss."""
    name = table.metric.rpartition("/")[2]
    if name not in ("loss", "perplexity", "perplexity_per_word"):
        return None
    nats = float if name == "loss" else math.log
    return [
        replace(point, values={seed: nats(value) for seed, value in point.values.items()})
        for point in points(table, table.metric)
        if point.values
    ]


def _saving(losses: Collection[Point], standard: str, fixed: str) -> Saving | None:
    spread = seed_spread(losses)
    small = [point for point in losses if point.arm == fixed]
    rivals = _held_heads([point for point in losses if point.arm == standard])
    if not small or not rivals:
        return None
    best = min(rivals, key=lambda same: mean([point.estimate(spread).mean for point in same]))
    # The best of several was picked, so the interval must hold for all of them together.
    level = 1 - (1 - LEVEL) / len(rivals)
    return saved(_curve(small, spread), _curve(best, spread), level)


def _curve(own: Collection[Point], spread: Spread | None) -> Curve:
    return [(point.at("params_total") or 0.0, point.estimate(spread)) for point in own]


def _held_heads(own: Collection[Point]) -> list[list[Point]]:
    """Points that grow at one number of heads, a list for each number that has all sizes.

    Where heads grow with the model there is no such number, and all points are one list.
    """
    by_heads: dict[float, list[Point]] = {}
    for point in own:
        by_heads.setdefault(point.at("model.heads") or 0.0, []).append(point)
    sizes = {point.at("params_total") for point in own}
    whole = [
        same for same in by_heads.values() if {point.at("params_total") for point in same} == sizes
    ]
    return whole or ([list(own)] if own else [])


def _told(found: Saving) -> str:
    share = in_words(found.share.times(100))
    return (
        f"At {found.loss:.4g} nats, the lowest loss that both reach, power laws through the points "
        f"need {short(found.size, 3)} parameters with heads of a fixed size and "
        f"{short(found.other_size, 3)} with the standard heuristic: {share} % saved (exponents "
        f"{found.exponent:.3f} and {found.other_exponent:.3f}; the laws miss a point by up to "
        f"{found.misfit:.1%}; the interval covers the seeds, not the choice of the law)."
    )
