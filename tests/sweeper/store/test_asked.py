"""Claims that were chosen after runs were done are noted, even if `forget` removed the runs."""

from sweeper.store.asked import Asked, asked_in, late_terms, note_forgotten, terms_of

RUNS = ["r0", "r1", "r2"]
POINTS = [{"experiment": "fig1", "run": run} for run in RUNS]


def plan(**experiment):
    about = {"metric": "test/loss", "claims": ["c"], **experiment}
    return {"experiments": {"fig1": about}, "points": POINTS}


def asked(experiment):
    terms = terms_of(experiment)
    return Asked(frozenset(RUNS), frozenset({("c", "test/loss")}), terms, {})


def test_a_margin_in_another_spelling_is_the_same():
    first, second = (
        terms_of({"margin": {"test/loss": {"size": size}}}) for size in ("1%", "1.0 %")
    )
    assert first == second != terms_of({"margin": {"test/loss": {"size": "1"}}})


def test_what_is_asked_anew_of_forgotten_runs_is_late(tmp_path):
    note_forgotten(tmp_path, "fig1", [plan()], RUNS[:2])
    margin = {"margin": {"test/loss": {"size": "1 %"}}}
    late = late_terms(
        asked({"claims": ["c"], **margin}), asked_in(tmp_path), lambda run: False
    )
    assert late == {"margin test/loss 1 %": RUNS[:2]}


def test_what_is_asked_anew_of_runs_that_were_forgotten_one_by_one_is_late(tmp_path):
    for run in RUNS:
        note_forgotten(tmp_path, run, [], [run])
    late = late_terms(asked({"claims": ["c"]}), asked_in(tmp_path), lambda run: False)
    assert late["claim c"] == RUNS
