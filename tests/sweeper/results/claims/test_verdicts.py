"""What is said of a verdict: in a terminal, in numbers, and of names nobody knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.results.claims.evidence.verdict import Answer, Verdict, in_words
from sweeper.results.collect import write_tables
from sweeper.results.judge import judge, lines
from sweeper.results.statistics.estimates import Difference
from sweeper.store.errors import UserError
from tests.sweeper.results.grids import figure1

WORSENS = "standard_worsens_beyond"


def test_lines_are_narrow_and_cannot_disturb_a_terminal(tmp_path: Path) -> None:
    verdict = Verdict("claim\x1b[2J", Answer.SUPPORTED, "a \x1b[31m\u202e b\n" * 40, {})
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
        judge(tmp_path, write_tables(tmp_path))
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (Difference(1.04, 0.475, 1.61), "1.04 [0.47, 1.61]"),
        (Difference(-203.1, -300.0, -100.0), "-203 [-300, -100]"),
        (Difference(0.1734, None, None), "0.173 [no interval]"),
        (Difference(2.0, 2.0, 2.0), "2.000 [2.000, 2.000]"),
    ],
    ids=["small", "large", "none", "exact"],
)
def test_a_difference_is_as_exact_as_its_interval(found: Difference, words: str) -> None:
    assert in_words(found) == words
