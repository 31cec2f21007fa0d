"""Stop 9 of the road: judge the claims of an experiment on its table.

In: the tables of results/collect.py. Out: a `Verdict` for each claim and measure, and the file
outputs/tables/<experiment>.claims.json. Next: sweeper/publish.py prints them.
"""

import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from sweeper.results.decision import Question
from sweeper.results.design import Unanswerable, with_alternatives
from sweeper.results.evidence import Evidence
from sweeper.results.points import measures
from sweeper.results.remarks import mixed, not_learned_by, tuned_in_words
from sweeper.results.table import Table, exported, publish_made
from sweeper.results.verdict import Decision, Verdict
from sweeper.store import registry
from sweeper.store.errors import Faults, UserError, collect_errors, sanitize
from sweeper.store.files import as_json
from sweeper.store.plans import ERROR

Verdicts = Mapping[str, Sequence[Verdict]]
"""The verdicts on tables, by the name of the experiment."""


def judge(
    outputs: Path, tables: Sequence[Table], faults: Faults | None = None
) -> Verdicts:
    """Return the verdicts on each table, and write them beside its .csv.

    The error of a table that cannot be judged is appended to `faults`. If it is None, the error is
    raised.

    Raises:
        UserError: a claim or a metric is unknown.
    """
    found = {}
    for table in tables:
        with collect_errors(faults, table.name):
            verdicts = verdicts_on(table)
            data = [asdict(verdict) for verdict in verdicts]
            about = {"format": 2, "experiment": table.name, "metric": table.metric}
            text = as_json(about | {"verdicts": data})
            publish_made(exported(outputs, table, ".claims.json"), text)
            found[table.name] = verdicts
    return found


def verdicts_on(table: Table) -> list[Verdict]:
    """Return the verdict on each claim of the experiment, for each of its measures."""
    found = [
        one if isinstance(one, Verdict) else one.verdict() for one in questions(table)
    ]
    caveats = [*tuned_in_words(table.experiment), *mixed(table)]
    not_learned = {one.words: not_learned_by(one, table) for one in measures(table)}
    complete = []
    for one in found:
        sentences = [one.sentence, *caveats]
        if told := not_learned[one.measure]:
            sentences.append(f"{told.partition(':')[0]}.")
        complete.append(replace(one, sentence=" ".join(sentences)))
    if table.mixed_code:
        return [_of_mixed_code(one, table) for one in complete]
    return complete


def _of_mixed_code(verdict: Verdict, table: Table) -> Verdict:
    """Return the verdict with the sentence on mixed code first.

    The verdict is undecided unless the plan accepts mixed code.
    """
    sentence = f"{table.mixed_code} {verdict.sentence}"
    if table.accepts_mixed_code:
        return replace(verdict, sentence=sentence)
    numbers = {key: value for key, value in verdict.numbers.items() if key != "price"}
    return replace(
        verdict, verdict=Decision.UNDECIDED, sentence=sentence, numbers=numbers
    )


def questions(table: Table) -> list[Question | Verdict]:
    """Return a question for each claim and measure of the experiment.

    A claim that its points cannot decide is returned as an undecided verdict with the reason.
    """
    named = table.experiment.get("claims") or ()
    judged_by = measures(table) if named else []
    by_measure = [(one.words, Evidence(table, one.metric)) for one in judged_by]
    found: list[Question | Verdict] = []
    for name in named:
        claim = registry.function(registry.CLAIMS, name, "experiment.claims", "claim")
        for words, evidence in by_measure:
            try:
                asked = with_alternatives(claim(evidence.design()), evidence.average)
                found.append(Question(name, words, asked, evidence))
            except Unanswerable as reason:
                found.append(Verdict(name, Decision.UNDECIDED, str(reason), {}, words))
    error = table.experiment.get("error", ERROR)
    claims = sum(isinstance(one, Question) for one in found)
    claims += len(table.provenance.get("asked_too", ()))
    return [
        one
        if isinstance(one, Verdict)
        else replace(
            one, claims=claims, error=error, asked_after=_asked_after(table, one)
        )
        for one in found
    ]


def decidable(
    table: Table, asks: Callable[[str], bool] = lambda claim: True
) -> list[Question]:
    """Return the questions that the points can decide, for the claims that `asks` accepts."""
    return [
        one for one in questions(table) if isinstance(one, Question) and asks(one.name)
    ]


def _asked_after(table: Table, question: Question) -> dict[str, Sequence[str]]:
    """Return the runs that were done when a term of the question was first asked, by term.

    The terms are the claim, its margin and the error.
    """
    late = table.provenance.get("asked_late", {})
    claim, metric = f"claim {question.name}", f"margin {question.evidence.metric} "
    return {
        term.partition(" ")[0]: runs
        for term, runs in late.items()
        if term == claim or term.startswith((metric, "error "))
    }


def terms_in_words(table: Table) -> list[str]:
    """Return the distinct sentences on the terms of a table's verdicts."""
    return [*dict.fromkeys(str(one.terms) for one in decidable(table))]


def check_decidable(table: Table) -> None:
    """Raise UserError if the points of an experiment cannot decide one of its claims."""
    reasons = {
        one.claim: one.sentence for one in questions(table) if isinstance(one, Verdict)
    }
    if reasons:
        rest = [claim for claim in table.experiment["claims"] if claim not in reasons]
        why = " ".join(f"{claim}: {reason}" for claim, reason in reasons.items())
        raise UserError(
            f"{sanitize(table.name)} has claims that its points cannot decide. {why} Plan the "
            "points that these claims need, or drop the claims: "
            f"'experiment.claims=[{','.join(rest)}]'."
        )


def rests_on(table: Table, asks: Callable[[str], bool]) -> set[tuple[str, str]]:
    """Return the points, as (arm, point), that are used by the claims that `asks` accepts."""
    return {
        (point.arm, point.name)
        for one in decidable(table, asks)
        for point in one.evidence.every
        if one.evidence.place(point) in one.used
    }


def next_seeds(
    table: Table, most: int, asks: Callable[[str], bool] = lambda claim: True
) -> Mapping[tuple[str, str], int]:
    """Return the number of seeds to add to points of undecided claims, by (arm, point).

    If several points have the same runs, each is listed.

    Args:
        table: the table.
        most: the largest number of seeds of a point, including those it has.
        asks: return whether a claim counts, given its name.
    """
    found: Counter[tuple[str, str]] = Counter()
    for one in decidable(table, asks):
        more = one.next_seeds(most)
        for point in one.evidence.every:
            seeds = more.get(one.evidence.place(point), 0)
            found[point.arm, point.name] = max(found[point.arm, point.name], seeds)
    return +found


def lines(verdicts: Sequence[Verdict], width: int = 100) -> list[str]:
    """Return the verdicts as lines of at most `width` characters."""
    printed = []
    for verdict in verdicts:
        claim = (
            f"{verdict.claim}, {verdict.measure}" if verdict.measure else verdict.claim
        )
        printed.append(f"{sanitize(claim, 120)}: {verdict.label}")
        sentence = sanitize(verdict.sentence, limit=4000)
        printed += textwrap.wrap(
            sentence, width, initial_indent="    ", subsequent_indent="    "
        )
    return printed
