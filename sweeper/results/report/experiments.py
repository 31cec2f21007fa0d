"""What the page shows of an experiment: its verdicts, the points to draw, its rows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from sweeper.results.claims.evidence.verdict import Verdict
from sweeper.results.figures.layout.palette import arm_looks
from sweeper.results.paper_tables import has_paper_table, paper_table
from sweeper.results.points import (
    BASELINES,
    Measure,
    Point,
    bent,
    marks_in_words,
    measures,
    missing,
    not_learned,
    seed_spread,
    tuned_in_words,
)
from sweeper.results.report.closing import closing
from sweeper.results.statistics.estimates import Estimate, interval
from sweeper.results.table import DIRECTIONS, Table, cell, label, number
from sweeper.store import registry
from sweeper.store.files import canonical

# What the points can be drawn over, where it varies, beside what the plan varies.
ACROSS = (
    "params_total",
    "params_non_embedding",
    "flops_per_token",
    "width",
    "model.embedding_size",
    "model.heads",
    "model.head_size",
)
_FIRST = ("state", "arm", "point", "seed")
_LAST = ("device", "code", "torch", "reason", "run")
_LEFT_OUT = ("experiment", "match_count")
_KNOWS_NOTHING = next(iter(BASELINES.values()))


def experiment(table: Table, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    about = table.experiment
    return {
        "name": table.name,
        "title": table.title,
        "text": about.get("text"),
        "scale": about.get("scale") or table.provenance.get("scale"),
        "fixed": table.fixed,
        "notes": not_learned(table),
        "arms": [
            {"name": arm, "label": table.label(arm), **look._asdict()}
            for arm, look in arm_looks(about["arms"]).items()
        ],
        "verdicts": [_judged(verdict, table) for verdict in verdicts],
        "closing": closing(table, verdicts),
        "figures": [_figure(table, measure) for measure in measures(table)],
        "paper_table": asdict(paper_table(table)) if has_paper_table(table) else None,
        **_rows(table),
    }


def _judged(verdict: Verdict, table: Table) -> dict[str, Any]:
    """A verdict with the question it answers, which the claim's own first line asks."""
    key = f"experiment.claims of {table.name}"
    claim = registry.function(registry.CLAIMS, verdict.claim, key, "claim")
    told = inspect.getdoc(inspect.getmodule(claim)) or verdict.claim
    return {
        "question": told.splitlines()[0],
        "claim": verdict.claim,
        "answer": verdict.answer,
        "sentence": verdict.sentence,
        "measure": verdict.measure,
    }


def _figure(table: Table, measure: Measure) -> dict[str, Any]:
    every = measure.points(table)
    averaged, back = bent(every)
    spread = seed_spread(averaged)
    known = {(p.arm, p.name): p.estimate(spread) for p in averaged if p.values}
    drawn = [point for point in every if point.values]
    first = str(table.experiment.get("x") or ACROSS[0])
    keys = dict.fromkeys([first, *ACROSS, *(key for point in every for key in point.settings)])
    across = [key for key in keys if len({_cell(point, key) for point in drawn} - {None}) > 1]
    across = across or [first]
    reason, without, of = missing(table, measure.metric)
    return {
        "words": measure.words,
        "better": {-1: "lower", 1: "higher"}.get(
            DIRECTIONS.get(measure.metric.rpartition("/")[2], 0)
        ),
        "across": [{"key": key, "words": label(key)} for key in across],
        "points": [_point(p, across, known[p.arm, p.name], back) for p in drawn],
        "labels": {key: label(key) for point in every for key in point.settings},
        "baselines": [
            {"words": words, "value": value, "hollow": words == _KNOWS_NOTHING}
            for words, value in measure.baselines(table).items()
        ],
        "marks": " ".join([*marks_in_words(drawn, spread), *tuned_in_words(table.experiment)]),
        "missing": f"{without} of {of} runs are missing: {reason}." if without else "",
    }


def _point(
    point: Point, across: Sequence[str], known: Estimate, back: Callable[[float], float]
) -> dict[str, Any]:
    ends = interval(known)
    return {
        "arm": point.arm,
        "name": point.name,
        "settings": {key: _word(value) for key, value in point.settings.items()},
        "x": {key: _cell(point, key) for key in across},
        "mean": back(known.mean),
        "ends": ends and [back(end) for end in ends],
        "seeds": [[seed, point.values[seed], point.runs[seed]] for seed in sorted(point.values)],
    }


def _cell(point: Point, key: str) -> float | str | None:
    """Where a point lies: a number, or a word where the column holds words."""
    value = point.cells.get(key, point.settings.get(key))
    found = number(value)
    return _word(value) if found is None and value is not None else found


def _word(value: Any) -> str:
    return "null" if value is None else value if isinstance(value, str) else canonical(value)


def _rows(table: Table) -> dict[str, Any]:
    """The rows, less what is alike in all of them, which is told once."""
    metrics = [measure.metric for measure in measures(table)]
    named = [*_FIRST, "task", *metrics, *_LAST]
    rest = [key for key in table.columns if key not in (*named, *_LEFT_OUT)]
    order = [*_FIRST, "task", *metrics, *rest, *_LAST]
    varied, alike = [], []
    for key in order:
        values = {canonical(row.get(key)) for row in table.rows}
        if key in (*_FIRST, *metrics, "run") or len(values) > 1:
            varied.append(key)
        elif values != {"null"}:
            alike.append([label(key), cell(key, table.rows[0].get(key))])
    return {
        "columns": [{"key": key, "words": label(key)} for key in varied],
        "rows": [[cell(key, row.get(key)) for key in varied] for row in table.rows],
        "alike": alike,
    }
