"""Power laws are scipy's, and what they say one arm saves holds as often as it says."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
import scipy.stats

from sweeper.results.statistics.estimates import Estimate, Spread
from sweeper.results.statistics.power_law import Curve, power_law, saved

SIZES = [67e3, 91e3, 123e3, 151e3]


def curve(scale: float, *, noise: tuple[float, ...] = (0.0,) * 4, sd: float | None = 0.01) -> Curve:
    """Points of loss = scale * size ** -0.3, three seeds each."""
    spread = None if sd is None else Spread(sd, 14)
    return [
        (size, Estimate(scale * size**-0.3 + error, 3, spread))
        for size, error in zip(SIZES, noise, strict=True)
    ]


def test_a_law_is_the_regression_of_the_logarithms() -> None:
    losses = np.array([1.41, 1.30, 1.22, 1.19])
    law = power_law(SIZES, losses)
    expected = scipy.stats.linregress(np.log(SIZES), np.log(losses))
    assert -law.exponent == pytest.approx(expected.slope)
    assert np.log(law.scale) == pytest.approx(expected.intercept)


def test_an_exact_law_is_found_as_scipys_curve_fit_finds_it() -> None:
    losses = 37.0 * np.array(SIZES) ** -0.3
    law = power_law(SIZES, losses)
    (scale, exponent), _ = scipy.optimize.curve_fit(
        lambda x, a, b: a * x**-b, SIZES, losses, (30, 0.2)
    )
    assert (law.scale, law.exponent) == pytest.approx((scale, exponent), rel=1e-5)
    assert law.size_at(float(losses[1])) == pytest.approx(SIZES[1])


def test_equal_exponents_save_the_same_share_at_every_loss() -> None:
    found = saved(curve(36.0), curve(37.0))
    assert found is not None
    truth = 1 - (36 / 37) ** (1 / 0.3)
    assert found.share.value == pytest.approx(truth)
    assert found.share.low is not None
    assert found.share.high is not None
    assert found.share.low < truth < found.share.high
    assert found.misfit == pytest.approx(0, abs=1e-12)


def test_the_interval_is_as_wide_as_the_noise_makes_it() -> None:
    """To first order the error of the share is that of the two fitted logarithms."""
    found = saved(curve(36.0, sd=0.004), curve(37.0, sd=0.004))
    assert found is not None
    x = np.log(SIZES)
    errors = []
    for scale in (36.0, 37.0):
        at = np.log((scale / found.loss) ** (1 / 0.3)) - x.mean()
        weights = 1 / len(x) + at * (x - x.mean()) / ((x - x.mean()) ** 2).sum()
        relative = 0.004 / np.sqrt(3) / (scale * np.array(SIZES) ** -0.3)
        errors.append(((weights * relative) ** 2).sum())
    reach = (1 - found.share.value) * np.sqrt(sum(errors)) / 0.3 * scipy.stats.t.ppf(0.975, 14)
    assert found.share.low == pytest.approx(found.share.value - reach, abs=0.15 * reach)
    assert found.share.high == pytest.approx(found.share.value + reach, abs=0.15 * reach)


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    truth = 1 - (36 / 37) ** (1 / 0.3)
    draw, held = np.random.default_rng(7), 0
    for _ in range(100):
        noise = [tuple(draw.normal(0, 0.01 / np.sqrt(3), 4)) for _ in range(2)]
        sd = float(0.01 * np.sqrt(draw.chisquare(14) / 14))
        found = saved(curve(36.0, noise=noise[0], sd=sd), curve(37.0, noise=noise[1], sd=sd))
        assert found is not None
        assert found.share.low is not None
        assert found.share.high is not None
        held += found.share.low <= truth <= found.share.high
    assert 89 <= held <= 100


@pytest.mark.parametrize(
    ("arm", "other"),
    [
        (curve(36.0)[:1], curve(37.0)),
        (curve(36.0), [(size, Estimate(0.5, 3, Spread(0.01, 14))) for size in SIZES]),
        (curve(36.0), curve(90.0)),
    ],
    ids=["one size", "a loss that does not fall", "no loss that both reach"],
)
def test_where_nothing_can_be_said_nothing_is(arm: Curve, other: Curve) -> None:
    assert saved(arm, other) is None


def test_without_a_spread_there_is_no_interval() -> None:
    found = saved(curve(36.0, sd=None), curve(37.0, sd=None))
    assert found is not None
    assert found.share.low is found.share.high is None


def test_seeds_that_leave_open_whether_loss_falls_give_no_interval() -> None:
    found = saved(curve(36.0, sd=0.8), curve(37.0, sd=0.8))
    assert found is not None
    assert found.share.low is found.share.high is None
