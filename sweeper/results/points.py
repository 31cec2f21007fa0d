"""How the values that a result rests on were chosen, in words, and what that leaves open."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sweeper.results.statistics.estimates import Estimate, Spread, estimate, mean, pooled
from sweeper.results.table import LOGARITHMIC_FROM, THEN, Row, Table, factor, label, number
from sweeper.store.code import COMMIT, differing

_PER = {"arm": "arm", "size": "arm and size", "point": "point"}


def tuned_in_words(experiment: Mapping[str, Any]) -> list[str]:
    """Sentences on the choices for an experiment, as its plan describes it; none if untuned."""
    found: Sequence[Mapping[str, Any]] = experiment.get("tuning") or ()
    if not found:
        return []
    tune, keys = experiment["tune"], list(found[0]["values"])
    names = ", ".join(map(label, keys))
    among = _span([choice["among"] for choice in found])
    words = [_chosen(arm, found, keys) for arm in dict.fromkeys(one["arm"] for one in found)]
    per = _PER[tune["per"]]
    chosen = f"{names} chosen on validation among {among} per {per}: {'; '.join(words)}."
    told = [chosen[0].upper() + chosen[1:]]
    at_end = [one for one in found if one["at_end"]]
    if at_end:
        words = [_chosen(arm, at_end, keys) for arm in dict.fromkeys(one["arm"] for one in at_end)]
        told.append(f"At an end of what was tried, so perhaps not at its best: {'; '.join(words)}.")
    return [*told, _certainty(found)]


def _chosen(arm: str, found: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> str:
    own = [one["values"] for one in found if one["arm"] == arm]
    return f"{arm} {' '.join(_span([values[key] for values in own]) for key in keys)}"


def _certainty(found: Sequence[Mapping[str, Any]]) -> str:
    if all(one["alike"] is None for one in found):
        return "One seed a trial: how sure the choices are is unknown."
    unsure = sum(bool(one["alike"]) for one in found)
    agreeing, seeds = (sum(one[key] for one in found) for key in ("agreeing", "seeds"))
    return (
        f"{unsure} of {len(found)} choices cannot be told from another value tried; "
        f"{agreeing} of {seeds} seeds alone would have chosen the same."
    )


def _span(values: Sequence[Any]) -> str:
    """Numbers from the least to the most; words one by one."""
    known = list(dict.fromkeys(values))
    if len(known) > 1 and all(isinstance(value, int | float) for value in known):
        return f"{min(known):g} to {max(known):g}"
    return ", ".join(f"{v:g}" if isinstance(v, float) else str(v) for v in known)


@dataclass
class Point:
    """One setting of an arm.

    Attributes:
        arm, name: where it stands; the name is the setting in words.
        settings: what the plan varies in this arm, and its values here.
        cells: the columns that all seeds share; what differs between seeds is the first one's.
        values: the metric by seed as it is shown (fractions in per cent), of finished runs only.
        runs: the run of every planned seed.
    """

    arm: str
    name: str
    settings: Mapping[str, Any]
    cells: dict[str, Any] = field(default_factory=dict)
    values: dict[int, float] = field(default_factory=dict)
    runs: dict[int, str] = field(default_factory=dict)

    def at(self, column: str) -> float | None:
        """The number in a column; None if there is none."""
        return number(self.cells.get(column))

    def estimate(self, spread: Spread | None) -> Estimate:
        """The mean over seeds; the point must have one."""
        return estimate(list(self.values.values()), spread)


def rows_of(table: Table, metric: str) -> list[Row]:
    """The rows of runs that measure `metric`: all, unless some are fine-tuned from others.

    Then they are those of the tasks that the metric is of, or the pre-training's if of none.
    """
    finetune = table.experiment.get("finetune") or {}
    owners = {task for task, metrics in finetune.items() if metric in metrics}
    if owners:
        return [row for row in table.rows if row.get("task") in owners]
    return [row for row in table.rows if row.get("task") not in finetune]


def metric_of(table: Table, arm: str) -> str:
    """What an arm is measured by: its own metric, or that of the experiment."""
    return str(table.experiment["arms"].get(arm, {}).get("metric") or table.metric)


def points(table: Table, metric: str, arms: Collection[str] | None = None) -> list[Point]:
    """The points of `arms` (all if None), in the order of the plan."""
    found: dict[tuple[str, str], Point] = {}
    for row in rows_of(table, metric):
        key = (str(row["arm"]), str(row["point"] or ""))  # one that varies nothing has no words
        if arms is not None and key[0] not in arms:
            continue
        point = found.setdefault(key, Point(*key, table.settings.get(key[1], {})))
        for column, cell in row.items():
            if point.cells.get(column) is None:
                point.cells[column] = cell
        seed = int(row["seed"])
        point.runs[seed] = str(row["run"])
        value = number(row.get(metric))
        if value is not None:
            point.values[seed] = factor(metric) * value
    return list(found.values())


def seed_spread(given: Collection[Point]) -> Spread | None:
    """The spread between seeds over all points, a run that several of them use counted once."""
    groups = {tuple(sorted(point.runs.values())): list(point.values.values()) for point in given}
    return pooled(groups.values())


def bent(points: Sequence[Point]) -> tuple[list[Point], Callable[[float], float]]:
    """The points with values to take means and intervals of, and what turns these back.

    They are logarithms where the values span a factor that an axis is logarithmic for.
    """
    values = [value for point in points for value in point.values.values()]
    if not values or min(values) <= 0 or max(values) / min(values) < LOGARITHMIC_FROM:
        return list(points), float
    logs = [{seed: math.log(value) for seed, value in p.values.items()} for p in points]
    return [replace(p, values=own) for p, own in zip(points, logs, strict=True)], math.exp


def missing(table: Table, metric: str) -> tuple[str, int, int]:
    """Why runs lack the metric ("2 failed, 1 running"), how many do, of how many."""
    return _lacking((row, number(row.get(metric)) is None) for row in rows_of(table, metric))


def unfinished(table: Table) -> tuple[str, int, int]:
    """The same of all that the experiment shows, and of the runs that it is fine-tuned from."""
    finetune: Mapping[str, list[str]] = table.experiment.get("finetune") or {}

    def lacks(row: Row) -> bool:
        if not finetune:
            return number(row.get(metric_of(table, str(row["arm"])))) is None
        wanted = finetune.get(str(row.get("task")))
        if wanted is None:
            return str(row["state"]) != "done"
        return any(number(row.get(metric)) is None for metric in wanted)

    return _lacking((row, lacks(row)) for row in table.rows)


def origin(table: Table) -> list[str]:
    """A result is one on some text, under what was typed: which, where it is known."""
    text, scale = table.experiment.get("text"), table.experiment.get("scale")
    fixed = f"With {', '.join(table.fixed)}." if table.fixed else ""
    return [told for told in (text and f"Text: {text}; {scale} scale.", fixed) if told]


def caveats(table: Table) -> list[str]:
    """What whoever sees a result must know: what else differs between its runs, missing runs."""
    reason, without, of = unfinished(table)
    lacking = f"{without} of {of} runs are missing: {reason}."
    return [*tuned_in_words(table.experiment), *mixed(table), *[lacking] * bool(without)]


def mixed(table: Table) -> list[str]:
    """What runs were trained with beside what the plan says, where that is not one thing."""
    apart = code_apart(table.rows)
    words = "Runs of {} versions of the program"
    return [
        *(_mixed(table, "code", words, ", ".join(apart or ())) if apart != [] else []),
        *_mixed(table, "torch", "Runs with {} versions of PyTorch"),
        *_mixed(table, "device", "Runs on {} kinds of device"),
    ]


def code_apart(rows: Iterable[Row]) -> list[str] | None:
    """The parts of the code that rows were not all trained by the same of; None where one does not
    say by which it was. Other versions of the program may have all of them in common."""
    told = (str(row.get("code_parts") or "[]") for row in rows if row.get("code"))
    states = [state for one in told for state in json.loads(one) or [{}]]
    known = all(state.keys() - {COMMIT} for state in states)
    return differing(states) if known else None


def _mixed(table: Table, column: str, words: str, apart: str = "") -> list[str]:
    cells = (str(row[column]) for row in table.rows if row.get(column))
    found = sorted({one for cell in cells for one in cell.split(THEN)})
    if len(found) < 2 and not apart:
        return []
    told = f"; they differ in {apart}" if apart else ""
    return [f"{words.format(max(len(found), 2))}: {', '.join(found)}{told}."]


def marks_in_words(points: Iterable[Point], *spreads: Spread | None) -> list[str]:
    """What the marks of a figure are: means of how many seeds, and what their intervals rest on."""
    counts = [len(point.values) for point in points if point.values]
    degrees = [spread.df for spread in spreads if spread]
    if not counts:
        return []
    if not degrees:
        return ["One seed per point: the spread between seeds is unknown, so there is no interval."]
    return [
        f"Mean of {_range(counts)} seeds, 95 % interval (Student's t, spread between seeds pooled "
        f"over all points: {_range(degrees)} degrees of freedom); faint: every seed."
    ]


def _range(numbers: Sequence[int]) -> str:
    """Numbers in words: the only one, or the smallest to the largest."""
    return " to ".join(str(number) for number in dict.fromkeys((min(numbers), max(numbers))))


def _lacking(rows: Iterable[tuple[Row, bool]]) -> tuple[str, int, int]:
    without: dict[str, str] = {}
    all_runs = set()
    for row, lacks in rows:
        all_runs.add(row["run"])
        if lacks:
            without[row["run"]] = str(row["state"])
    # A finished run without the metric trained another task, or measured nan.
    words = {"done": "done without it", "new": "not started"}
    counts = Counter(words.get(state, state) for state in without.values())
    reason = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    return reason, len(without), len(all_runs)


TASKS = {"squad": "SQuAD", "mnli": "MNLI"}
# What knows nothing of word order, or nothing at all: columns <split>/<baseline>_<metric>.
BASELINES = {"majority": "majority class", "bag_of_words": "bag of words"}

_LITTLE = 0.1  # of what the best run is above a baseline: who is no further above has not learned
_NAMED = 4  # settings


@dataclass(frozen=True)
class Measure:
    """A metric as it is shown. `task` is empty where none is fine-tuned."""

    task: str
    metric: str

    @property
    def words(self) -> str:
        """The metric in words, after its task."""
        return f"{TASKS.get(self.task, self.task)} {label(self.metric)}".strip()

    def points(self, table: Table) -> list[Point]:
        return points(table, self.metric)

    def baselines(self, table: Table) -> dict[str, float]:
        """By its words, what each baseline reaches that the rows carry, lowest first."""
        split, _, name = self.metric.rpartition("/")
        found = {}
        for baseline, words in BASELINES.items():
            cells = [row.get(f"{split}/{baseline}_{name}") for row in rows_of(table, self.metric)]
            values = [value for value in map(number, cells) if value is not None]
            if values:
                found[words] = factor(self.metric) * mean(values)
        return dict(sorted(found.items(), key=lambda item: item[1]))


def not_learned(table: Table) -> list[str]:
    """The settings of which some seeds do no better than what knows nothing, by measure."""
    told = []
    for measure in measures(table):
        lowest = next(iter(measure.baselines(table).items()), None)
        every = [point for point in measure.points(table) if point.values]
        if lowest is None or not every:
            continue
        words, nothing = lowest
        best = max(value for point in every for value in point.values.values())
        learned = nothing + max(_LITTLE * (best - nothing), _LITTLE / 2 * abs(nothing))
        counts = [sum(v <= learned for v in point.values.values()) for point in every]
        named = [
            f"{table.label(point.arm)} {point.name} ({count} of {len(point.values)} seeds)"
            for point, count in zip(every, counts, strict=True)
            if count
        ]
        more = [f"and {len(named) - _NAMED} more settings"] if len(named) > _NAMED else []
        if named:
            listed = "; ".join([*named[:_NAMED], *more])
            told.append(f"{measure.words} not learned, about that of the {words}: {listed}.")
    return told


def measures(table: Table) -> list[Measure]:
    finetune = table.experiment.get("finetune") or {}
    found = [Measure(task, metric) for task, metrics in finetune.items() for metric in metrics]
    return found or [Measure("", table.metric)]
