"""The data that the page of a sweep holds: experiments, runs and provenance, ready for JSON."""

import inspect
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sweeper.results.collect import plain
from sweeper.results.decision import Measurements
from sweeper.results.judge import Verdicts
from sweeper.results.palette import arm_looks
from sweeper.results.paper_tables import has_paper_table, paper_table
from sweeper.results.points import (
    BASELINES,
    Measure,
    Point,
    average,
    bent,
    marks_in_words,
    measures,
    measures_of_arms,
    missing,
    near,
    not_learned,
    seed_spread,
    settings_apart,
    tuned_in_words,
)
from sweeper.results.table import DIRECTIONS, RESULT_KEYS, Row, Table, cell, label, number
from sweeper.results.verdict import Verdict
from sweeper.store import registry
from sweeper.store.attempts import Cause
from sweeper.store.errors import UserError, as_typed, sanitize
from sweeper.store.files import canonical
from sweeper.store.plans import command_of
from sweeper.store.runs import Run, RunStore, merged_rows

# The page offers these columns as x axes where they vary, beside the keys of the plan.
ACROSS = (
    "params_total",
    "params_non_embedding",
    "flops_per_token",
    "cache_bytes_per_token",
    "width",
    "model.embedding_size",
    "model.heads",
    "model.head_size",
)
CURVES = ("train/loss", "validation/loss")
LOG_LINES = 40
MOST_CONTRASTS = 6  # of a claim, whose closing the page draws
MOST_CURVE_POINTS = 150
CURVE_DIGITS = 4
# A large sweep has fewer points a curve and fewer letters a log, so that the page stays small.
ALL_CURVE_POINTS, ALL_LOG_LETTERS = 75_000, 2_000_000

_FIRST_COLUMNS = ("state", "arm", "point", "seed")
_LAST_COLUMNS = ("device", "code", "torch", "reason", "run")
_HIDDEN_SETTINGS = ("logger.", "paths.")


def page_data(outputs: Path, tables: Sequence[Table], verdicts: Verdicts) -> dict[str, Any]:
    """Return all that the page shows; experiments with claims come first."""
    rows: dict[str, Row] = {str(row["run"]): row for table in tables for row in table.rows}
    records = {run: files for table in tables for run, files in table.records.items()}
    store = RunStore(outputs)
    steps: list[Any] = []
    environments: list[Any] = []
    runs = {
        id: run_data(store.run(id), {**row, **records.get(id, {})}, len(rows), steps, environments)
        for id, row in rows.items()
    }
    about = provenance(tables, runs, environments)
    order = sorted(tables, key=lambda table: not verdicts[table.name])
    return {
        "written": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "experiments": [experiment_data(table, verdicts[table.name]) for table in order],
        "provenance": about,
        "train": as_typed("train"),
        "shared": take_shared_settings(runs.values()),
        "steps": steps,
        "environments": environments,
        "runs": runs,
    }


def experiment_data(table: Table, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Return the verdicts, figures, closing intervals, paper table and rows of an experiment."""
    about, questions = table.experiment, {}
    for claim in about.get("claims") or ():  # the first line of its docstring
        key = f"experiment.claims of {table.name}"
        asked = registry.function(registry.CLAIMS, claim, key, "claim")
        questions[claim] = (inspect.getdoc(asked) or claim).splitlines()[0]
    scale = about.get("scale") or table.provenance.get("scale")
    setting = [
        scale and f"{scale} scale",
        about.get("text") and f"text: {about['text']}",
        table.fixed and f"with {', '.join(table.fixed)}",
    ]
    return {
        "name": table.name,
        "title": table.title,
        "setting": "; ".join(str(part) for part in setting if part),
        "notes": not_learned(table),
        "arms": [
            {"name": arm, "label": table.label(arm), **look._asdict()}
            for arm, look in arm_looks(about["arms"]).items()
        ],
        "verdicts": [
            {
                "question": questions[verdict.claim],
                "claim": verdict.claim,
                "answer": verdict.label,
                "sentence": verdict.sentence,
                "measure": verdict.measure,
                "effect": verdict.effect,
            }
            for verdict in verdicts
        ],
        "closing": _closing(table, verdicts),
        "figures": [_figure(table, measure) for measure in measures_of_arms(table)],
        "paper_table": asdict(paper_table(table)) if has_paper_table(table) else None,
        **_rows(table),
    }


_ENDS = ("value", "low", "high")


def _closing(table: Table, verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """Return, for each claim of a sweep with rounds, the interval of each contrast by round.

    A step is [value, low, high], in per cent where a claim is about ratios; None if unknown.
    """
    earlier: dict[tuple[str, str], list[Any]] = {}
    for one in table.provenance.get("rounds") or ():
        for then in one["verdicts"]:
            earlier.setdefault((then["claim"], then["measure"]), []).append(then["contrasts"])
    metrics = {measure.words: measure.metric for measure in measures(table)}
    found = []
    for verdict in verdicts:
        if not table.provenance.get("rounds") or not verdict.numbers:
            continue
        measured = Measurements(table, metrics[verdict.measure])

        def shown(
            end: float | None, estimate: float | None = None, ratios: bool = measured.ratios
        ) -> float | None:
            if end is None or not ratios:
                return end
            sign = math.copysign(1, estimate or 0)  # below 0, worse by that per cent
            return sign * 100 * math.expm1(min(sign * end, 100.0))

        now = verdict.numbers["contrasts"][:MOST_CONTRASTS]
        history = [*earlier.get((verdict.claim, verdict.measure), ()), now]
        contrasts = []
        for place, contrast in enumerate(now):
            own = [contrasts[place] for contrasts in history if place < len(contrasts)]
            steps = [[shown(one[key], one["value"]) for key in _ENDS] for one in own]
            contrasts.append({"words": contrast["words"], "steps": steps})
        size = measured.margin.size if measured.margin else None
        found.append(
            {
                "claim": verdict.claim,
                "measure": verdict.measure,
                "answer": verdict.label,
                "margin": size and [shown(-size), shown(size)],
                "unit": " %" if measured.ratios else "",
                "contrasts": contrasts,
            }
        )
    return found


def _figure(table: Table, measure: Measure) -> dict[str, Any]:
    points = measure.points(table)
    averaged, back = bent(points, measure.metric)
    spread = seed_spread(averaged)
    drawn = [point for point in points if point.values]
    baselines = measure.baselines(table)
    within = near(baselines, [v for p in drawn for v in p.values.values()]) if drawn else {}
    first = str(table.experiment.get("x") or ACROSS[0])
    keys = dict.fromkeys([first, *ACROSS, *(key for point in points for key in point.settings)])
    across = [key for key in keys if len({_coordinate(p, key) for p in drawn} - {None}) > 1]
    across = across or [first]
    curves = {key: settings_apart(points, key) for key in across}
    shown = []
    for point, scaled in zip(points, averaged, strict=True):
        if not point.values:
            continue
        ends = scaled.interval(spread)
        shown.append(
            {
                "arm": point.arm,
                "name": point.name,
                "x": {key: _coordinate(point, key) for key in across},
                "curves": {
                    key: ", ".join(f"{label(k)} {_word(v)}" for k, v in rest(point).items())
                    for key, rest in curves.items()
                },
                "mean": back(scaled.mean),
                "ends": ends and [back(end) for end in ends],
                "seeds": [[n, value, point.runs[n]] for n, value in sorted(point.values.items())],
            }
        )
    direction = DIRECTIONS.get(measure.metric.rpartition("/")[2], 0)
    return {
        "words": measure.words,
        "better": {-1: "lower", 1: "higher"}.get(direction),
        "across": [{"key": key, "words": label(key)} for key in across],
        "points": shown,
        "average": average(averaged),
        "baselines": [
            {
                "words": words,
                "value": value,
                "near": words in within,
                "hollow": words == BASELINES["majority"],
            }
            for words, value in baselines.items()
        ],
        "marks": " ".join([*marks_in_words(averaged, spread), *tuned_in_words(table.experiment)]),
        "missing": missing(table, measure.metric),
    }


def _coordinate(point: Point, key: str) -> float | str | None:
    """Return the place of a point on the x axis `key`: a number, or the word of the column."""
    value = point.cells.get(key, point.settings.get(key))
    found = number(value)
    return _word(value) if found is None and value is not None else found


def _word(value: Any) -> str:
    return value if isinstance(value, str) else canonical(value)


def _rows(table: Table) -> dict[str, Any]:
    """Return the rows; a column that is alike in all of them is listed once, under "alike"."""
    metrics = [measure.metric for measure in measures(table)]
    before = [*_FIRST_COLUMNS, "task", *metrics]
    rest = [key for key in table.columns if key not in (*before, *_LAST_COLUMNS, "experiment")]
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
        "rows": [{key: cell(key, row.get(key)) for key in varied} for row in table.rows],
        "alike": alike,
    }


def run_data(
    run: Run, row: Row, runs: int, steps: list[Any], environments: list[Any]
) -> dict[str, Any]:
    """Return a run, one of `runs`; "problem" says which of its files cannot be read.

    `row` has its record, result and attempts, too.

    What many runs have alike is appended to `steps` and `environments`; the run has its place.
    """
    letters = min(max(ALL_LOG_LETTERS // runs, 100), 4000)
    found: dict[str, Any] = {key: row.get(key) for key in ("task", "seed", "state", "reason")}
    found |= {"settings": {}, "sizes": {}, "metrics": {}, "result": {}, "attempts": []}
    if row.get("damaged"):
        return {**found, "problem": row["reason"]}
    try:
        if "record" in row:
            config, result = row["record"]["config"], row.get("result")
            kept = {key: v for key, v in config.items() if not key.startswith(_HIDDEN_SETTINGS)}
            found |= {
                "parent": config.get("parent"),
                "settings": {key: plain(value) for key, value in kept.items()},
                "sizes": row["record"]["size"],
            }
            if result:
                metrics = result["metrics"].items()
                found |= {
                    "metrics": {label(key): cell(key, n) for key, n in metrics},
                    "result": {key: result[key] for key in RESULT_KEYS if key in result},
                    "finished": result["attempt"],
                }
        attempts = run.attempts()
        known = {info["number"]: info for info in row.get("attempts", ())}
        for attempt in attempts:
            info = known.get(attempt.number) or attempt.info()
            environment = {key: info.get(key, {}) for key in ("hardware", "versions")}
            done = attempt.number == found.get("finished")
            found["attempts"].append(
                {
                    "number": attempt.number,
                    "cause": Cause.DONE if done else (attempt.exit() or {}).get("cause"),
                    "started": info.get("started"),
                    "resumed_from": info.get("resumed_from"),
                    "environment": _place(environments, environment | {"code": info.get("code")}),
                }
            )
        last = found.get("finished", math.inf)  # one claimed later has no part in the result
        history = merged_rows([one for one in attempts if one.number <= last])
        most = min(max(ALL_CURVE_POINTS // runs, 20), MOST_CURVE_POINTS)
        found["curves"] = {
            name: [_place(steps, own), values]
            for name, (own, values) in curves(history, most).items()
        }
        # The newest attempt may have failed before it wrote a line.
        logs = (one.log_end(letters).expandtabs(4).splitlines() for one in reversed(attempts))
        log = next((lines for lines in logs if lines), [])
        found["log"] = [line.rstrip() for line in log[-LOG_LINES:]]
    except (UserError, OSError) as problem:
        found["problem"] = str(problem)
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        found["problem"] = f"a file of the run has unexpected content: {sanitize(problem, 80)}"
    return found


def _place(values: list[Any], value: Any) -> int:
    """Return the index of `value` in the list, to which it is added if new."""
    try:
        return values.index(value)
    except ValueError:
        values.append(value)
        return len(values) - 1


def curves(rows: Sequence[Mapping[str, Any]], most: int) -> dict[str, tuple[list[Any], list[Any]]]:
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
            values = [value and float(f"{value:.{CURVE_DIGITS}g}") for _, value in points]
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
    tables: Sequence[Table],
    runs: Mapping[str, Mapping[str, Any]],
    environments: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Return commands, versions of the program and its libraries, and hours by device.

    A run on several devices counts its hours for each. A device that is not the CPU of its machine
    is a GPU.
    """
    commands: dict[tuple[Any, ...], list[str]] = {}
    for table in tables:
        about = table.provenance
        key = (about.get("number"), about.get("scale"), command_of(about))
        commands.setdefault(key, []).append(table.name)
    code: Counter[str] = Counter()
    libraries: Counter[str] = Counter()
    devices: dict[str, dict[str, Any]] = {}
    for run in runs.values():
        finisher = next((a for a in run["attempts"] if a["number"] == run.get("finished")), None)
        environment = environments[finisher["environment"]] if finisher else {}
        if environment.get("code"):
            code[str(environment["code"])] += 1
        libraries.update(f"{name} {v}" for name, v in environment.get("versions", {}).items())
        name = run["result"].get("device")
        if name is None:
            continue
        cpu = environment.get("hardware", {}).get("cpu")
        kind = "" if cpu is None else "CPU" if cpu == name else "GPU"
        new = {"device": name, "kind": kind, "runs": 0, "hours": 0.0}
        device = devices.setdefault(str(name), new)
        device["runs"] += 1
        counts = (run["settings"].get(f"trainer.{key}") for key in ("devices", "num_nodes"))
        used = math.prod(number(count) or 1.0 for count in counts)
        device["hours"] += (number(run["result"].get("seconds")) or 0.0) / 3600 * used
    return {
        "commands": [
            {"experiments": names, "plan": plan, "scale": scale, "command": command}
            for (plan, scale, command), names in commands.items()
        ],
        "code": code.most_common(),
        "libraries": libraries.most_common(),
        "devices": list(devices.values()),
    }
