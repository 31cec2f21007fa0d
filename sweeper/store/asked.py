"""Claims, margins and errors that plans of an outputs folder asked, and the runs done by then.

A plan notes, for each term that it is the first to ask, the runs that were done by then. Plans that
are forgotten leave a line in `history.jsonl`, so that asking again is not the first time.
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
"""For each term that was first asked after a run was done, the runs that were."""


@dataclass(frozen=True)
class Asked:
    """The claims that one plan asks of the runs of an experiment, and their terms.

    Attributes:
        runs: the runs of its points.
        claims: pairs of a claim and a metric that judges it.
        terms: the terms in words, as `terms_of` returns them.
        late: the terms that this plan was the first to ask, after runs were done.
        done: the runs that were done when the plan was forgotten.
    """

    runs: frozenset[str]
    claims: frozenset[tuple[str, str]]
    terms: tuple[str, ...]
    late: Terms
    done: frozenset[str] = frozenset()


def terms_of(experiment: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the terms of the verdicts on an experiment, in words."""
    margins = (experiment.get("margin") or {}).items()
    return (
        *(f"claim {claim}" for claim in experiment.get("claims") or ()),
        *(f"margin {metric} {_size(about['size'])}" for metric, about in margins),
        f"error {experiment.get('error', ERROR):g}",
    )


def _size(margin: Any) -> str:
    """Return a margin in one spelling: "1%", "1 %" and "1.0 %" are the same."""
    text = str(margin).strip()
    unit = " %" if text.endswith("%") else ""
    return f"{float(text.rstrip('% ')):g}{unit}"


def asked_of(plan: Mapping[str, Any], name: str) -> Asked:
    """Return what a plan (plain data) asks of the runs of an experiment."""
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
    """Return what every plan of a folder asked: forgotten plans first, then from the oldest on."""
    every = (*_forgotten(outputs), *plans(outputs))
    return [asked_of(plan, name) for plan in every for name in plan["experiments"]]


def late_terms(
    own: Asked, known: Sequence[Asked], done: Callable[[str], bool]
) -> Terms:
    """Return the terms that were first asked after runs were done, with these runs.

    Args:
        own: what is asked now.
        known: everything that was asked before, in order.
        done: returns whether a run is done.
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
    """Return the other claims, with their metrics, that were asked of any of the same runs."""
    every = {pair for one in known if one.runs & own.runs for pair in one.claims}
    return sorted(every - own.claims)


def note_forgotten(
    outputs: Path,
    name: str,
    forgotten: Sequence[Mapping[str, Any]],
    done: Sequence[str],
) -> None:
    """Append a line for what is forgotten under a name.

    It has the experiments and points of the plans, and the runs that were done.
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
    """Yield the plans in the history; skip a line that a kill left incomplete."""
    path = outputs / HISTORY
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        try:
            yield json.loads(line)
        except ValueError:
            continue
