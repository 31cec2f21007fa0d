"""Judge the claims of an experiment on its table.

The functions take the tables of results/collect.py. They return a `Verdict` for each claim and
metric, and write outputs/tables/<experiment>.claims.json. sweeper/stages/publish.py prints the
verdicts. This file is stop 9, the last, of the road through the code in CONTRIBUTING.md.
"""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from sweeper.results.decision import Question
from sweeper.results.design import Unanswerable, with_alternatives
from sweeper.results.evidence import Evidence
from sweeper.results.points import measures
from sweeper.results.remarks import left_out, mixed, not_learned_by, tuned_in_words
from sweeper.results.table import Table, exported, publish_made
from sweeper.results.verdict import Decision, Verdict
from sweeper.store import registry
from sweeper.store.errors import Faults, UserError, collect_errors, sanitize
from sweeper.store.files import as_json
from sweeper.store.plans import ERROR

Verdicts = Mapping[str, Sequence[Verdict]]
"""Maps the name of an experiment to the verdicts on its claims."""


def judge(
    outputs: Path, tables: Sequence[Table], faults: Faults | None = None
) -> Verdicts:
    """Return the verdicts on each table, and write them to a .claims.json beside its .csv.

    If a table cannot be judged, append the error to `faults`, or raise it if `faults` is None.

    Raises:
        UserError: a claim or a metric is unknown.
    """
    found = verdicts_by_name(tables, faults)
    for table in (one for one in tables if one.name in found):
        with collect_errors(faults, table.name):
            data = [asdict(verdict) for verdict in found[table.name]]
            about = {"format": 2, "experiment": table.name, "metric": table.metric}
            text = as_json(about | {"verdicts": data})
            publish_made(exported(outputs, table, ".claims.json"), text)
    return found


def verdicts_by_name(
    tables: Sequence[Table], faults: Faults | None = None
) -> dict[str, list[Verdict]]:
    """Return the verdicts on each table, without writing them. See `judge`."""
    found = {}
    for table in tables:
        with collect_errors(faults, table.name):
            found[table.name] = verdicts_on(table)
    return found


def verdicts_on(table: Table) -> list[Verdict]:
    """Return a verdict for each claim of the experiment and each metric that judges it.

    The sentence of each verdict ends with the caveats of the table, for example on tuning.
    """
    caveats = [*tuned_in_words(table.experiment), *mixed(table), left_out(table)]
    if table.accepts_mixed_code and table.mixed_code:
        caveats.insert(0, table.mixed_code)
    not_learned = {one.words: not_learned_by(one, table) for one in measures(table)}
    found = []
    for question in questions(table):
        one = question if isinstance(question, Verdict) else question.verdict()
        sentences = [one.sentence, *filter(None, caveats)]
        if words := not_learned[one.measure]:
            sentences.append(f"{words.partition(':')[0]}.")
        found.append(replace(one, sentence=" ".join(sentences)))
    return found


def questions(table: Table) -> list[Question | Verdict]:
    """Return a question for each claim of the experiment and each metric that judges it.

    If the points of the experiment cannot decide a claim (`Unanswerable`), the list has an
    undecided verdict in its place.
    """
    named = table.experiment.get("claims") or ()
    judged_by = measures(table) if named else []
    by_measure = [(one.words, Evidence(table, one.metric)) for one in judged_by]
    error = table.experiment.get("error", ERROR)
    found: list[Question | Verdict] = []
    for name in named:
        claim = registry.function(registry.CLAIMS, name, "experiment.claims", "claim")
        for words, evidence in by_measure:
            try:
                asked = with_alternatives(claim(evidence.design()), evidence.average)
                late = _asked_after(table, name, evidence.metric)
                found.append(
                    Question(
                        name, words, asked, evidence, error=error, asked_after=late
                    )
                )
            except Unanswerable as reason:
                found.append(Verdict(name, Decision.UNDECIDED, str(reason), {}, words))
    claims = sum(isinstance(one, Question) for one in found)
    claims += len(table.provenance.get("asked_too", ()))
    return [
        replace(one, claims=claims) if isinstance(one, Question) else one
        for one in found
    ]


def decidable(table: Table) -> list[Question]:
    """Return the questions of the experiment, without the claims that its points cannot decide."""
    return [one for one in questions(table) if isinstance(one, Question)]


def _asked_after(table: Table, claim: str, metric: str) -> dict[str, Sequence[str]]:
    """Return the ids of the runs that were done before a term of this claim was chosen, by term.

    The terms are "claim", "margin" and "error". A term that was chosen before all runs is left out.
    """
    late = table.provenance.get("asked_late", {})
    return {
        term.partition(" ")[0]: runs
        for term, runs in late.items()
        if term == f"claim {claim}" or term.startswith((f"margin {metric} ", "error "))
    }


def check_decidable(table: Table) -> None:
    """Raise UserError if the points of an experiment cannot decide one of its claims."""
    reasons = {
        one.claim: one.sentence for one in questions(table) if isinstance(one, Verdict)
    }
    if reasons:
        rest = [claim for claim in table.experiment["claims"] if claim not in reasons]
        why = " ".join(f"{claim}: {reason}" for claim, reason in reasons.items())
        raise UserError(
            f"{sanitize(table.name)} has claims that its points cannot decide. {why} To leave "
            f"these claims out, add 'experiment.claims=[{','.join(rest)}]' to the command."
        )


WIDEST = 100  # wrap sentences at this many characters, even if the terminal is wider


def lines(verdicts: Sequence[Verdict], width: int = WIDEST) -> list[str]:
    """Return the verdicts as text to print in a terminal of `width` characters."""
    printed = []
    for verdict in verdicts:
        claim = (
            f"{verdict.claim}, {verdict.measure}" if verdict.measure else verdict.claim
        )
        printed.append(f"{sanitize(claim, 120)}: {verdict.label}")
        sentence = sanitize(verdict.sentence, limit=4000)
        printed += textwrap.wrap(
            sentence,
            min(width, WIDEST),
            initial_indent="    ",
            subsequent_indent="    ",
        )
    return printed
