"""What is said of a verdict: in a terminal, in numbers, and of names nobody knows."""

from __future__ import annotations

from math import inf, log
from pathlib import Path

import pytest

from sweeper.results.claims.evidence.verdict import Decision, Found, Verdict
from sweeper.results.collect import collect, write_tables
from sweeper.results.judge import judge, lines
from sweeper.store.errors import UserError
from tests.sweeper.results.grids import figure1

WORSENS = "standard_worsens_beyond"


def test_lines_are_narrow_and_cannot_disturb_a_terminal(tmp_path: Path) -> None:
    verdict = Verdict("claim\x1b[2J", Decision.SUPPORTED, "a \x1b[31m\u202e b\n" * 40, {})
    printed = lines([verdict], width=80)
    assert max(map(len, printed)) <= 80
    assert all(line.isprintable() for line in printed)


@pytest.mark.parametrize(
    ("claims", "metric", "told"),
    [
        (
            ["../../etc/passwd"],
            "test/perplexity",
            "claims of fig1=../../etc/passwd: expected one",
        ),
        (["os"], "test/perplexity", "fixed_keeps_improving"),
        ([WORSENS], "test/beauty", "metric=test/beauty: expected a name that ends in one of loss"),
    ],
    ids=["path", "module", "metric"],
)
def test_unknown_names_are_answered_with_the_known(
    tmp_path: Path, claims: list[str], metric: str, told: str
) -> None:
    sweep = figure1(seeds=1)
    sweep.claims, sweep.metric = claims, metric
    sweep.write(tmp_path)
    with pytest.raises(UserError) as caught:
        judge(tmp_path, write_tables(tmp_path, collect(tmp_path)))
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("ends", "ratio", "words"),
    [
        ((1.04, 0.475, 1.61), False, "it better by 1.04 [0.47, 1.61]"),
        ((-203.1, -300.0, -100.0), False, "it worse by 203 [100, 300]"),
        ((0.1734, -inf, inf), False, "it better by 0.173 [no interval]"),
        ((-1.42e-14, -inf, inf), False, "it no different [no interval]"),
        ((0.0, -1e-15, 1e-15), False, "it no different"),
        ((2.0, 2.0, 2.0), False, "it better by 2.000 [2.000, 2.000]"),
        ((log(1.013), log(1.009), log(1.017)), True, "it better by 1.30 % [0.90, 1.70]"),
        ((log(1.013), -inf, inf), True, "it better by 1.3 % [no interval]"),
        ((log(7000), log(5000), log(9000)), True, "it better by a factor of 7e+03 [5e+03, 9e+03]"),
        ((800.0, -inf, inf), True, "it better by a factor of 1.01e+304 [no interval]"),
    ],
)
def test_a_difference_is_as_exact_as_its_interval(
    ends: tuple[float, float, float], ratio: bool, words: str
) -> None:
    assert str(Found("it", *ends, ratio)) == words


def test_what_only_rounding_makes_differ_from_nothing_is_nothing() -> None:
    assert Found("it", 5.05e-14, -inf, inf, ratio=False).size() == "0 [no interval]"
