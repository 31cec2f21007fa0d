"""Claims that were chosen after runs were done are noted, even if `forget` removed the runs."""

import pytest

from sweeper.store.asked import (
    HISTORY,
    Asked,
    asked_in,
    late_terms,
    note_forgotten,
    terms_of,
)

RUNS = ["r0", "r1", "r2"]
PLAN = {
    "experiments": {"fig1": {"metric": "test/loss", "claims": ["c"]}},
    "points": [{"experiment": "fig1", "run": run} for run in RUNS],
}


def test_a_line_that_a_kill_cut_short_costs_no_other_line(tmp_path):
    (tmp_path / HISTORY).write_text('{"forgot": "a", "exp')
    note_forgotten(tmp_path, "b", [PLAN], RUNS)
    assert len(asked_in(tmp_path)) == 1


def test_a_margin_in_another_spelling_is_the_same():
    first, second = (
        terms_of({"margin": {"test/loss": {"size": size}}}) for size in ("1%", "1.0 %")
    )
    assert first == second != terms_of({"margin": {"test/loss": {"size": "1"}}})


@pytest.mark.parametrize(
    ("plans", "further"),
    [([PLAN], set()), ([], {"claim c", "error 0.05"})],
    ids=["with their plan", "alone"],
)
def test_what_is_asked_anew_of_forgotten_runs_is_late(tmp_path, plans, further):
    for run in RUNS[:2]:
        note_forgotten(tmp_path, run, plans, [run])
    terms = terms_of({"claims": ["c"], "margin": {"test/loss": {"size": "1 %"}}})
    own = Asked(frozenset(RUNS), frozenset({("c", "test/loss")}), terms, {})
    late = late_terms(own, asked_in(tmp_path), lambda run: False)
    assert late == dict.fromkeys({"margin test/loss 1 %", *further}, RUNS[:2])
