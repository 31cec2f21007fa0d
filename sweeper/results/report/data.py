"""The data that the page of a sweep shows: experiments, runs and provenance, ready for JSON."""

import inspect
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sweeper.results.collect import plain
from sweeper.results.judge import Verdicts
from sweeper.results.palette import arm_looks
from sweeper.results.paper_tables import has_paper_table, paper_table
from sweeper.results.points import measures, missing, origin
from sweeper.results.table import RESULT_KEYS, Row, Table, cell, label, number
from sweeper.results.verdict import Verdict
from sweeper.store import registry
from sweeper.store.attempts import Attempt, Cause
from sweeper.store.errors import UserError, as_typed, sanitize
from sweeper.store.plans import command_of
from sweeper.store.runs import Run, RunStore, merged_rows

CURVES = ("train/loss", "validation/loss")
LOG_LINES = 40
MOST_CURVE_POINTS = 150
CURVE_DIGITS = 4
# A large sweep has fewer points a curve and fewer letters a log, so that the page stays small.
ALL_CURVE_POINTS, ALL_LOG_LETTERS = 75_000, 2_000_000

_FIRST_COLUMNS = ("state", "arm", "point", "seed")
_LAST_COLUMNS = ("device", "code", "torch", "reason", "run")
_HIDDEN_SETTINGS = ("logger.", "paths.")


def page_data(
    outputs: Path, tables: Sequence[Table], verdicts: Verdicts
) -> dict[str, Any]:
    """Return everything that the page shows except figures.

    Experiments of the newest sweep come first, and of one sweep those with claims.
    """
    rows: dict[str, Row] = {
        str(row["run"]): row for table in tables for row in table.rows
    }
    records = {run: files for table in tables for run, files in table.records.items()}
    store = RunStore(outputs)
    runs = {
        id: run_data(store.run(id), {**row, **records.get(id, {})}, len(rows))
        for id, row in rows.items()
    }
    order = sorted(
        tables,
        key=lambda table: (
            -(table.provenance["number"] or 0),
            not verdicts[table.name],
        ),
    )
    return {
        "written": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "experiments": [
            experiment_data(table, verdicts[table.name]) for table in order
        ],
        "provenance": provenance(order, runs),
        "train": as_typed("train"),
        "shared": take_shared_settings(runs.values()),
        "runs": runs,
    }


def experiment_data(table: Table, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Return the verdicts, the paper table and the rows of an experiment."""
    arms = arm_looks(table.experiment["arms"])
    sentences = [
        f"{table.title}.",
        missing(table),
        "The table of runs has every number.",
    ]
    return {
        "name": table.name,
        "title": table.title,
        "setting": " ".join(origin(table)),
        "figure_in_words": " ".join(filter(None, sentences)),
        "arms": [
            {"name": arm, "label": table.label(arm), "colour": look.colour}
            for arm, look in arms.items()
        ],
        "verdicts": [
            {
                "question": _question(table, verdict.claim),
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


def _question(table: Table, claim: str) -> str:
    """Return the question that a claim answers: the first line of its docstring."""
    key = f"experiment.claims of {table.name}"
    function = registry.function(registry.CLAIMS, claim, key, "claim")
    return (inspect.getdoc(function) or claim).splitlines()[0]


def _rows(table: Table) -> dict[str, Any]:
    """Return the rows; a column that is alike in all of them is listed once, under "alike"."""
    metrics = [measure.metric for measure in measures(table)]
    before = [*_FIRST_COLUMNS, "task", *metrics]
    rest = [
        key
        for key in table.columns
        if key not in (*before, *_LAST_COLUMNS, "experiment")
    ]
    varied, alike = [], []
    for key in [*before, *rest, *_LAST_COLUMNS]:
        first = table.rows[0].get(key) if table.rows else None
        always = key in (*_FIRST_COLUMNS, *metrics, "run")
        if always or any(row.get(key) != first for row in table.rows):
            varied.append(key)
        elif first is not None:
            alike.append([label(key), cell(key, first)])
    return {
        "columns": [{"key": key, "words": label(key)} for key in varied],
        "rows": [
            {key: cell(key, row.get(key)) for key in varied} for row in table.rows
        ],
        "alike": alike,
    }


def run_data(run: Run, row: Row, runs: int) -> dict[str, Any]:
    """Return a run, one of `runs`; "problem" says which of its files cannot be read.

    `row` also has its record, result and attempts.
    """
    found: dict[str, Any] = {
        key: row.get(key) for key in ("task", "seed", "state", "reason")
    }
    found |= {"settings": {}, "sizes": {}, "metrics": {}, "result": {}, "attempts": []}
    if row.get("damaged"):
        return {**found, "problem": row["reason"]}
    try:
        found |= _planned(row)
        found |= _trained(run, row, found.get("finished"), runs)
    except (UserError, OSError) as problem:
        found["problem"] = str(problem)
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        found["problem"] = (
            f"a file of the run has unexpected content: {sanitize(problem, 80)}"
        )
    return found


def _planned(row: Row) -> dict[str, Any]:
    """Return the settings and sizes of a run's record, and the numbers of its result."""
    if "record" not in row:
        return {}
    config, result = row["record"]["config"], row.get("result")
    found: dict[str, Any] = {
        "parent": config.get("parent"),
        "settings": {
            key: plain(value)
            for key, value in config.items()
            if not key.startswith(_HIDDEN_SETTINGS)
        },
        "sizes": row["record"]["size"],
    }
    if result:
        metrics = result["metrics"].items()
        found["metrics"] = {label(key): cell(key, value) for key, value in metrics}
        found["result"] = {key: result[key] for key in RESULT_KEYS if key in result}
        found["finished"] = result["attempt"]
    return found


def _trained(run: Run, row: Row, finished: int | None, runs: int) -> dict[str, Any]:
    """Return the attempts of a run, its training curves, and the end of its log."""
    attempts = run.attempts()
    known = {info["number"]: info for info in row.get("attempts", ())}
    # An attempt that was claimed after the result has no part in it.
    counted = [one for one in attempts if finished is None or one.number <= finished]
    most_points = min(max(ALL_CURVE_POINTS // runs, 20), MOST_CURVE_POINTS)
    letters = min(max(ALL_LOG_LETTERS // runs, 100), 4000)
    # The newest attempt may have failed before it wrote a line.
    logs = (
        one.log_end(letters).expandtabs(4).splitlines() for one in reversed(attempts)
    )
    log = next((lines for lines in logs if lines), [])
    return {
        "attempts": [
            _attempt(one, known.get(one.number), finished) for one in attempts
        ],
        "curves": curves(merged_rows(counted), most_points),
        "log": [line.rstrip() for line in log[-LOG_LINES:]],
    }


def _attempt(
    attempt: Attempt, known: Mapping[str, Any] | None, finished: int | None
) -> dict[str, Any]:
    """Return an attempt: when and how it ran, and why it ended."""
    info = known or attempt.info()
    done = attempt.number == finished
    return {
        "number": attempt.number,
        "cause": Cause.DONE if done else (attempt.exit() or {}).get("cause"),
        "started": info.get("started"),
        "resumed_from": info.get("resumed_from"),
        "code": info.get("code"),
        "hardware": info.get("hardware", {}),
        "versions": info.get("versions", {}),
    }


def curves(
    rows: Sequence[Mapping[str, Any]], most: int
) -> dict[str, tuple[list[Any], list[Any]]]:
    """Return by name the steps and values of each curve, thinned evenly to `most` points.

    The first and the last point stay. A value that is not a finite number becomes None.
    """
    found = {}
    for name in CURVES:
        points = [(row["step"], number(row[name])) for row in rows if name in row]
        if len(points) > most:
            last = len(points) - 1
            points = [points[round(place * last / (most - 1))] for place in range(most)]
        if points:
            values = [
                value and float(f"{value:.{CURVE_DIGITS}g}") for _, value in points
            ]
            found[name] = ([step for step, _ in points], values)
    return found


def take_shared_settings(runs: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Remove from each run the settings that all runs have alike, and return them."""
    all_settings = [run["settings"] for run in runs if run["settings"]]
    if len(all_settings) < 2:
        return {}
    shared = {
        key: value
        for key, value in all_settings[0].items()
        if all(key in own and own[key] == value for own in all_settings)
    }
    for settings in all_settings:
        for key in shared:
            del settings[key]
    return shared


def provenance(
    tables: Sequence[Table], runs: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return commands, versions of the program and its libraries, and hours by device."""
    commands: dict[tuple[Any, ...], list[str]] = {}
    for table in tables:
        about = table.provenance
        key = (about.get("number"), about.get("scale"), command_of(about))
        commands.setdefault(key, []).append(table.name)
    code: Counter[str] = Counter()
    libraries: Counter[str] = Counter()
    for run in runs.values():
        finisher = _finisher(run)
        if finisher.get("code"):
            code[str(finisher["code"])] += 1
        libraries.update(
            f"{name} {v}" for name, v in finisher.get("versions", {}).items()
        )
    return {
        "commands": [
            {"experiments": names, "plan": plan, "scale": scale, "command": command}
            for (plan, scale, command), names in commands.items()
        ],
        "code": code.most_common(),
        "libraries": libraries.most_common(),
        "devices": _devices(runs.values()),
    }


def _finisher(run: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the attempt that finished a run; empty for an unfinished run."""
    own = (one for one in run["attempts"] if one["number"] == run.get("finished"))
    return next(own, {})


def _devices(runs: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return runs and hours by device; a run on several devices counts its hours for each.

    A device that is not the CPU of its machine is a GPU.
    """
    devices: dict[str, dict[str, Any]] = {}
    for run in runs:
        name = run["result"].get("device")
        if name is None:
            continue
        cpu = _finisher(run).get("hardware", {}).get("cpu")
        kind = "" if cpu is None else "CPU" if cpu == name else "GPU"
        new = {"device": name, "kind": kind, "runs": 0, "hours": 0.0}
        device = devices.setdefault(str(name), new)
        device["runs"] += 1
        counts = (
            run["settings"].get(f"trainer.{key}") for key in ("devices", "num_nodes")
        )
        used = math.prod(number(count) or 1.0 for count in counts)
        device["hours"] += (number(run["result"].get("seconds")) or 0.0) / 3600 * used
    return list(devices.values())
