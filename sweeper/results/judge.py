"""Stop 9 of the road: the claims of an experiment, judged by its table.

In: the tables that results/collect.py made. Out: a `Verdict` for each claim and measure, also as
words and as outputs/tables/<experiment>.claims.json. Next: nothing; sweeper/outcome.py shows them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from sweeper.results.claims.evidence.verdict import Verdict
from sweeper.results.table.measures import Measure, measures
from sweeper.results.table.table import Table, exported
from sweeper.store import registry
from sweeper.store.errors import shown
from sweeper.store.files import publish_json

Verdicts = Mapping[str, Sequence[Verdict]]
"""The verdicts on tables, by their name."""


def judge(outputs: Path, tables: Sequence[Table]) -> Verdicts:
    """The verdicts on each table, by its name; they are also written beside its .csv.

    Raises:
        UserError: an unknown claim or metric.
    """
    found = {}
    for table in tables:
        verdicts = verdicts_on(table)
        data = [asdict(verdict) for verdict in verdicts]
        about = {"format": 1, "experiment": table.name, "metric": table.metric}
        publish_json(exported(outputs, table, ".claims.json"), about | {"verdicts": data})
        found[table.name] = verdicts
    return found


def verdicts_on(table: Table) -> list[Verdict]:
    """The verdict on each claim that the experiment names, by each measure that it shows."""
    key = f"experiment.claims of {table.name}"
    named_there = table.experiment.get("claims") or ()
    found = [registry.function(registry.CLAIMS, claim, key, "check") for claim in named_there]
    return [
        replace(check(_measured_by(table, measure)), measure=measure.words)
        for check in found
        for measure in measures(table)
    ]


def _measured_by(table: Table, measure: Measure) -> Table:
    return replace(table, experiment={**table.experiment, "metric": measure.metric})


def lines(verdicts: Sequence[Verdict], width: int = 100) -> list[str]:
    """The verdicts as lines of text, of at most `width` characters."""
    printed = []
    for verdict in verdicts:
        claim = f"{verdict.claim}, {verdict.measure}" if verdict.measure else verdict.claim
        printed.append(f"{shown(claim, 120)}: {verdict.verdict}")
        sentence = shown(verdict.sentence, limit=4000)
        printed += textwrap.wrap(sentence, width, initial_indent="    ", subsequent_indent="    ")
    return printed
