"""Find claims, margins and error rates that were chosen after results were known.

Here, a claim, a margin or an error rate is called a term. The key `asked` of a plan lists, for each
term, the runs that were done before any plan contained the term. Plans that the command `forget`
has moved to `history.jsonl` count as well.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, product
from pathlib import Path
from typing import Any

from sweeper.store.plans import ERROR, plans

HISTORY = "history.jsonl"
Terms = dict[str, list[str]]
"""Maps a term to the ids of the runs that were done before any plan contained the term.

Terms without such runs are left out.
"""


@dataclass(frozen=True)
class Asked:
    """The claims, margins and error rate of one experiment in one plan.

    Attributes:
        runs: the ids of the runs of the experiment's points.
        claims: (claim, metric) pairs, for each metric by which a claim is judged.
        terms: the claims, margins and error rate as strings (see `terms_of`).
        late: for each term that was chosen after results were known, the ids of the runs that were
            already done (see `late_terms`).
        done: the ids of the finished runs that `forget` removed with the plan. Empty for a plan
            that was not removed.
    """

    runs: frozenset[str]
    claims: frozenset[tuple[str, str]]
    terms: tuple[str, ...]
    late: Terms
    done: frozenset[str] = frozenset()


def terms_of(experiment: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the claims, margins and error rate of an experiment, each as a string."""
    margins = (experiment.get("margin") or {}).items()
    return (
        *(f"claim {claim}" for claim in experiment.get("claims") or ()),
        *(
            f"margin {metric} {size_in_words(about['size'])}"
            for metric, about in margins
        ),
        f"error {experiment.get('error', ERROR):g}",
    )


def size_in_words(margin: Any) -> str:
    """Return the size of a margin as text: "1%", "1 %" and "1.0 %" all become "1 %"."""
    text = str(margin).strip()
    unit = " %" if text.endswith("%") else ""
    return f"{float(text.rstrip('% ')):g}{unit}"


def asked_of(plan: Mapping[str, Any], name: str) -> Asked:
    """Return the claims, margins and error rate of the experiment `name` in a plan."""
    about = plan["experiments"][name]
    tuned = chain.from_iterable((about.get("finetune") or {}).values())
    metrics = [*tuned] or [str(about.get("metric"))]
    points = [point for point in plan["points"] if point["experiment"] == name]
    return Asked(
        runs=frozenset(point["run"] for point in points),
        claims=frozenset(product(about.get("claims") or (), metrics)),
        terms=terms_of(about),
        late=plan.get("asked", {}).get(name, {}),
        done=frozenset(plan.get("done", ())),
    )


def asked_in(outputs: Path) -> list[Asked]:
    """Return the claims, margins and error rate of each experiment of each plan, oldest first.

    The list has three parts:

    1. One Asked for each command `forget` that removed a single run instead of a plan. This Asked
       has no claims. If the run was finished, `runs` and `done` contain its id.
    2. The experiments of plans that `forget` removed.
    3. The experiments of the present plans.
    """
    history = [*_forgotten(outputs)]
    alone = [
        Asked(runs := frozenset(line["done"]), frozenset(), (), {}, done=runs)
        for line in history
        if not line["experiments"]
    ]
    every = (*history, *plans(outputs))
    return alone + [
        asked_of(plan, name) for plan in every for name in plan["experiments"]
    ]


def late_terms(
    own: Asked, known: Sequence[Asked], done: Callable[[str], bool]
) -> Terms:
    """Return the terms of an experiment that were chosen after some of its runs were done.

    Args:
        own: the experiment, in a new plan.
        known: all experiments of all earlier plans, oldest first.
        done: a function that takes the id of a run and returns whether the run is done.

    Returns:
        A dict that maps each such term to the ids of the runs that were already done.
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
    """Return the claims of all experiments that share runs with `own`, as (claim, metric) pairs.

    Leave out the claims of `own` itself.
    """
    every = {pair for one in known if one.runs & own.runs for pair in one.claims}
    return sorted(every - own.claims)


def note_forgotten(
    outputs: Path,
    name: str,
    forgotten: Sequence[Mapping[str, Any]],
    done: Sequence[str],
) -> None:
    """Append plans that `forget` removes to the history, one per line.

    Args:
        outputs: the outputs folder.
        name: the argument of `forget`, such as "fig1".
        forgotten: the removed plans. If `forget` removes a single run, there are none. Then append
            one line without experiments.
        done: the ids of the finished runs that `forget` removes. Each line lists them.
    """
    when = datetime.now(UTC).isoformat(timespec="seconds")
    path = outputs / HISTORY
    text = path.read_text("utf-8") if path.exists() else ""
    with path.open("a", encoding="utf-8") as file:
        if text and not text.endswith("\n"):  # a killed process left half a line
            file.write("\n")
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
