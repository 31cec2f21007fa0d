"""Collect the data of a report page, ready for JSON: experiments, runs and provenance."""

import inspect
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sweeper.results.collect import RESULT_KEYS, plain
from sweeper.results.judge import Verdicts
from sweeper.results.palette import arm_looks
from sweeper.results.paper_tables import has_paper_table, paper_table
from sweeper.results.points import measures
from sweeper.results.remarks import missing, origin
from sweeper.results.table import Data, Row, RunFiles, Table, cell, label, number
from sweeper.results.verdict import Verdict
from sweeper.store import registry
from sweeper.store.attempts import Attempt, Cause
from sweeper.store.errors import UserError, as_typed
from sweeper.store.plans import command_of
from sweeper.store.runs import Run, RunStore

CURVES = ("train/loss", "validation/loss")
LOG_LINES = 40
MOST_CURVE_POINTS = 150
LOG_LETTERS = 4000

_FIRST_COLUMNS = ("state", "arm", "point", "seed")
_HIDDEN_SETTINGS = ("logger.", "paths.")
_ATTEMPT_KEYS = ("number", "started", "resumed_from", "code", "hardware", "versions")


def page_data(
    outputs: Path, tables: Sequence[Table], verdicts: Verdicts
) -> dict[str, Any]:
    """Return the data of the page, except figures.

    Experiments of the newest sweep come first. Within a sweep, experiments with claims come first.
    """

    def newest_first(table: Table) -> tuple[int, bool]:
        return -(table.provenance["number"] or 0), not verdicts[table.name]

    order = sorted(tables, key=newest_first)
    store = RunStore(outputs)
    return {
        "written": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "experiments": [experiment_data(one, verdicts[one.name]) for one in order],
        "provenance": provenance(order),
        "train": as_typed("train"),
        "runs": {
            id: run_data(store.run(id), row, files)
            for id, (row, files) in runs_of(tables).items()
        },
    }


def runs_of(tables: Sequence[Table]) -> dict[str, tuple[Row, RunFiles]]:
    """Return one row of each run, and the content of the run's files, by run id."""
    return {
        row["run"]: (row, table.files[row["run"]])
        for table in tables
        for row in table.rows
    }


def experiment_data(table: Table, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Return the data of an experiment: its title, arms, verdicts, paper table and rows."""
    looks = arm_looks(table.experiment["arms"])
    return {
        "name": table.name,
        "title": table.title,
        "setting": " ".join(origin(table)),
        "figure_in_words": f"{table.title}. {missing(table)}".strip(),
        "arms": [
            {"name": arm, "label": table.label(arm), "colour": look.colour}
            for arm, look in looks.items()
        ],
        "verdicts": [
            {
                "question": _question(verdict.claim),
                "answer": verdict.label,
                "sentence": verdict.sentence,
                "measure": verdict.measure,
                "effect": verdict.effect,
            }
            for verdict in verdicts
        ],
        "paper_table": asdict(paper_table(table)) if has_paper_table(table) else None,
        **_rows(table),
    }


def _question(claim: str) -> str:
    """Return a claim as a question: the first line of its docstring, or else its name."""
    function = registry.function(registry.CLAIMS, claim, "experiment.claims", "claim")
    return (inspect.getdoc(function) or claim).splitlines()[0]


def _rows(table: Table) -> dict[str, Any]:
    """Return the table of runs.

    Returns:
        A dict with these keys:

        - columns: the key and the label of each column that is shown.
        - rows: the cells of each run, by the key of the column.
        - alike: [label, value] of each column that is not shown, because all runs have one value.
    """
    metrics = [measure.metric for measure in measures(table)]
    always = {*_FIRST_COLUMNS, *metrics, "run"}
    keys = dict.fromkeys([*_FIRST_COLUMNS, "task", *metrics, *table.columns])
    del keys["experiment"]

    varied, alike = [], []
    for key in keys:
        values = {row.get(key) for row in table.rows}
        if key in always or len(values) > 1:
            varied.append(key)
        elif values - {None}:
            alike.append([label(key), cell(key, values.pop())])
    return {
        "columns": [{"key": key, "words": label(key)} for key in varied],
        "rows": [
            {key: cell(key, row.get(key)) for key in varied} for row in table.rows
        ],
        "alike": alike,
    }


def run_data(run: Run, row: Row, files: RunFiles) -> dict[str, Any]:
    """Return the data of a run, given one of its rows and the content of its files.

    If a file cannot be read, its error is under "problem".
    """
    metrics = files.result.metrics.items() if files.result else ()
    settings = {
        key: plain(value)
        for key, value in files.config.items()
        if not key.startswith(_HIDDEN_SETTINGS)
    }
    found: dict[str, Any] = {
        **{key: row.get(key) for key in ("task", "seed", "state", "reason")},
        "parent": files.config.get("parent"),
        "settings": settings,
        "sizes": files.size,
        "metrics": {label(key): cell(key, value) for key, value in metrics},
        "result": {key: getattr(files.result, key, None) for key in RESULT_KEYS},
        "attempts": [],
    }
    if row.get("damaged"):
        return found | {"problem": row["reason"]}
    try:
        return found | _trained(run, files)
    except (UserError, OSError) as problem:
        return found | {"problem": str(problem)}


def _trained(run: Run, files: RunFiles) -> dict[str, Any]:
    """Return {"attempts": attempts of a run, "curves": training curves, "log": last lines}."""
    attempts = run.attempts()
    finished = files.result.attempt if files.result else None
    # Show the newest log that is not empty, because the last attempt may have failed before it
    # logged anything.
    logs = (one.log_end(LOG_LETTERS).expandtabs(4) for one in reversed(attempts))
    log = next(filter(str.strip, logs), "").splitlines()
    return {
        "attempts": [_attempt(one, finished) for one in attempts],
        "curves": curves(run.history()),
        "log": [line.rstrip() for line in log[-LOG_LINES:]],
    }


def _attempt(attempt: Attempt, finished: int | None) -> dict[str, Any]:
    """Return the data of an attempt: when and how it ran, and why it ended.

    `finished` is the number of the attempt that finished the run, or None.
    """
    info = attempt.info()
    cause: Any = Cause.DONE
    if attempt.number != finished:
        cause = (attempt.exit() or {}).get("cause")
    return {key: info.get(key) for key in _ATTEMPT_KEYS} | {"cause": cause}


def curves(
    rows: Sequence[Data], most: int = MOST_CURVE_POINTS
) -> dict[str, tuple[list[Any], list[Any]]]:
    """Return the steps and values of each training curve, by name.

    If a curve has more than `most` points, they are thinned evenly, and the first and the last one
    are kept. A value that is not a finite number becomes None.
    """
    found = {}
    for name in CURVES:
        points = [(row["step"], number(row[name])) for row in rows if name in row]
        if len(points) > most:
            last = len(points) - 1
            points = [points[round(place * last / (most - 1))] for place in range(most)]
        if points:
            values = [value and float(f"{value:.4g}") for _, value in points]
            found[name] = ([step for step, _ in points], values)
    return found


def provenance(tables: Sequence[Table]) -> dict[str, Any]:
    """Return the provenance of the page.

    Returns:
        A dict with these keys. All but `commands` are only about finished runs.

        - commands: each command with its experiments, plan and scale.
        - code: pairs of a version of the program and its number of runs.
        - libraries: pairs of a library with its version, and its number of runs.
        - devices: (kind of device, number of runs, device hours). An hour of training on two
          devices is two device hours.
    """
    commands = defaultdict(list)
    for table in tables:
        about = table.provenance
        key = (about.get("number"), about.get("scale"), command_of(about))
        commands[key].append(table.name)

    attempts: list[Data] = []  # the last attempt of each finished run
    hours: dict[str, list[float]] = defaultdict(list)
    for row, files in runs_of(tables).values():
        if files.result:
            attempts.append(files.attempts[-1])
            took_h = (row["seconds"] or 0.0) / 3600 * row["devices"]
            hours[str(row["device"])].append(took_h)
    codes = Counter(one["code"] for one in attempts if one.get("code"))
    libraries = Counter(
        f"{name} {version}"
        for one in attempts
        for name, version in one.get("versions", {}).items()
    )
    return {
        "commands": [
            {"experiments": names, "plan": plan, "scale": scale, "command": command}
            for (plan, scale, command), names in commands.items()
        ],
        "code": codes.most_common(),
        "libraries": libraries.most_common(),
        "devices": [(name, len(own), sum(own)) for name, own in hours.items()],
    }
