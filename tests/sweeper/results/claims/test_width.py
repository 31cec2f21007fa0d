"""The claims of `width`: models of one size whose attention is narrow or wide."""

import math

import pytest

from tests.sweeper.results.claims.test_claims import (
    MARGIN,
    NOT,
    SAME,
    SUPPORTED,
    Model,
    add,
    judged,
    of,
    why_open,
)

WIDTH = ("optimum_moves_with_size", "wider_attention_wins", "width_has_an_optimum")


class Equal(Model):
    """A model with the same number of parameters for any number of heads."""

    @property
    def size(self):
        return {**super().size, "params_total": 100 * self.embedding_size}


def sweep(loss, ratios=(0.5, 1, 2, 4)):
    """Return a sweep with heads of size 16 in three embedding sizes. `octave` is log2(W/d)."""
    points = (
        (
            arm,
            Equal(embedding, round(ratio * embedding / 16), 16),
            40 * math.exp(loss(math.log2(ratio), embedding) / 100),
        )
        for arm, embedding in (("small", 32), ("medium", 64), ("large", 128))
        for ratio in ratios
    )
    return of(points, margin=MARGIN)


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (lambda octave, d: 9 * (octave - 1) ** 2, (SAME, SUPPORTED, SUPPORTED)),
        (lambda octave, d: 9 * octave**2, (SAME, NOT, SUPPORTED)),
        (lambda octave, d: -9 * octave, (SAME, SUPPORTED, NOT)),
        (lambda octave, d: 9 * octave, (SAME, NOT, NOT)),
        (
            lambda octave, d: 9 * (octave - math.log2(d / 64)) ** 2,
            (SUPPORTED, NOT, NOT),
        ),
        (lambda octave, d: 0, (SAME, SAME, SAME)),
    ],
    ids=["2d is best", "d is best", "wider", "narrower", "the best grows", "alike"],
)
def test_widths_are_judged_as_they_are(loss, expected):
    for claim, verdict in zip(WIDTH, expected, strict=True):
        assert judged(sweep(loss), claim).verdict == verdict, claim


@pytest.mark.parametrize("claim", WIDTH)
def test_models_of_other_sizes_are_not_compared(claim):
    made = sweep(lambda octave, d: octave)
    add(made, "large", Model(128, 5, 16), 40)
    assert "embedding size 128 differ in" in why_open(made, claim)


@pytest.mark.parametrize(
    ("claim", "ratios", "lacks"),
    [
        ("wider_attention_wins", (0.5, 2, 4), "needs widths d and 2d"),
        ("width_has_an_optimum", (0.5, 4), "three widths"),
    ],
)
def test_without_its_widths_a_claim_is_not_asked(claim, ratios, lacks):
    assert lacks in why_open(sweep(lambda octave, d: octave, ratios), claim)
