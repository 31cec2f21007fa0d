"""The history of the claims, margins and error rates that the plans of an outputs folder asked for.

A term is a claim, a margin or an error rate. The first plan that asks for a term lists the runs
that were already done, so that a reader sees which terms were chosen after results were known.
A forgotten plan leaves a line in `history.jsonl`. It still counts as the first to ask.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sweeper.store.plans import ERROR, plans

HISTORY = "history.jsonl"
Terms = dict[str, list[str]]
"""The runs that were done before a term was first asked for, by term.

Terms that were asked for before any run was done are absent.
"""


@dataclass(frozen=True)
class Asked:
    """The claims and terms of one experiment in one plan.

    Attributes:
        runs: the ids of the runs of the experiment's points.
        claims: pairs of a claim and the metric that judges it.
        terms: the terms in words, as `terms_of` returns them.
        late: the terms that this plan was the first to ask for after runs were done.
        done: the runs that were done when the plan was forgotten; empty if it is not forgotten.
    """

    runs: frozenset[str]
    claims: frozenset[tuple[str, str]]
    terms: tuple[str, ...]
    late: Terms
    done: frozenset[str] = frozenset()


def terms_of(experiment: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the claims, margins and error rate of an experiment, one text each."""
    margins = (experiment.get("margin") or {}).items()
    return (
        *(f"claim {claim}" for claim in experiment.get("claims") or ()),
        *(f"margin {metric} {_size(about['size'])}" for metric, about in margins),
        f"error {experiment.get('error', ERROR):g}",
    )


def _size(margin: Any) -> str:
    """Return a margin in its standard spelling: "1%", "1 %" and "1.0 %" all become "1 %"."""
    text = str(margin).strip()
    unit = " %" if text.endswith("%") else ""
    return f"{float(text.rstrip('% ')):g}{unit}"


def asked_of(plan: Mapping[str, Any], name: str) -> Asked:
    """Return the claims and terms of the experiment `name` in a plan."""
    about = plan["experiments"][name]
    tuned = [
        one for metrics in (about.get("finetune") or {}).values() for one in metrics
    ]
    metrics = tuned or [str(about.get("metric"))]
    return Asked(
        frozenset(
            point["run"] for point in plan["points"] if point["experiment"] == name
        ),
        frozenset(
            (claim, metric) for claim in about.get("claims") or () for metric in metrics
        ),
        terms_of(about),
        plan.get("asked", {}).get(name, {}),
        frozenset(plan.get("done", ())),
    )


def asked_in(outputs: Path) -> list[Asked]:
    """Return the claims and terms of all plans, first the forgotten plans and then the others.

    Both are in the order in which they were written.
    """
    every = (*_forgotten(outputs), *plans(outputs))
    return [asked_of(plan, name) for plan in every for name in plan["experiments"]]


def late_terms(
    own: Asked, known: Sequence[Asked], done: Callable[[str], bool]
) -> Terms:
    """Return the terms that were first asked for after runs were done, with these runs.

    Args:
        own: the claims and terms of the present plan.
        known: the claims and terms of all earlier plans, in order.
        done: a function that returns whether the run with an id is done.
    """
    before = [one for one in known if one.runs & own.runs]
    forgotten = frozenset().union(*(one.done for one in before))
    found = {}
    for term in own.terms:
        first = next((one for one in before if term in one.terms), None)
        runs = (
            sorted(run for run in own.runs if run in forgotten or done(run))
            if first is None
            else first.late.get(term, [])
        )
        if runs:
            found[term] = runs
    return found


def shared_claims(own: Asked, known: Sequence[Asked]) -> list[tuple[str, str]]:
    """Return the (claim, metric) pairs that other plans judge on any of the same runs.

    Leave out the pairs that this plan judges as well.
    """
    every = {pair for one in known if one.runs & own.runs for pair in one.claims}
    return sorted(every - own.claims)


def note_forgotten(
    outputs: Path,
    name: str,
    forgotten: Sequence[Mapping[str, Any]],
    done: Sequence[str],
) -> None:
    """Append a line to the history for each plan that is forgotten under `name`.

    A line holds the plan's experiments and points, and the runs that were done. If no plan is
    forgotten, append one line with the runs alone.
    """
    when = datetime.now(UTC).isoformat(timespec="seconds")
    with (outputs / HISTORY).open("a", encoding="utf-8") as file:
        for plan in forgotten or [{"experiments": {}, "points": []}]:
            kept = {
                key: plan[key]
                for key in ("experiments", "points", "asked")
                if key in plan
            }
            line = {"forgot": name, "when": when, **kept, "done": [*done]}
            file.write(json.dumps(line) + "\n")


def _forgotten(outputs: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the plans in the history. Skip a line that a killed process left incomplete."""
    path = outputs / HISTORY
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        try:
            yield json.loads(line)
        except ValueError:
            continue
