"""Judges the claims of an experiment by its table, says it in words and keeps it on disk."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from sweeper.named import named
from sweeper.results import claims
from sweeper.results.claims.verdict import Verdict
from sweeper.results.collect import write_tables
from sweeper.results.table.measures import Measure, measures
from sweeper.results.table.table import Table, read_table
from sweeper.store.errors import shown
from sweeper.store.files import publish_json


def judge(outputs: Path, experiments: Sequence[str] | None = None) -> dict[str, list[Verdict]]:
    """The verdicts of each experiment (all if None), from the records as they are now.

    They are also written to outputs/tables/<experiment>.claims.json.

    Raises:
        UserError: an unknown experiment, claim or metric.
    """
    found = {}
    for path in write_tables(outputs, experiments):
        table = read_table(path)
        verdicts = verdicts_on(table)
        data = [asdict(verdict) for verdict in verdicts]
        about = {"format": 1, "experiment": table.name, "metric": table.metric}
        publish_json(path.with_suffix(".claims.json"), about | {"verdicts": data})
        found[table.name] = verdicts
    return found


def verdicts_on(table: Table) -> list[Verdict]:
    """The verdict on each claim that the experiment names, by each measure that it shows."""
    key = f"experiment.claims of {table.name}"
    named_there = table.experiment.get("claims") or ()
    found = [named(claims, claim, "check", key) for claim in named_there]
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
