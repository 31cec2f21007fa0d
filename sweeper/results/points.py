"""The points of a table with their values, and the sentences on them below every result."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sweeper.results.statistics.estimates import BEYOND, Spread, interval, mean
from sweeper.results.table import (
    LOGARITHMIC_FROM,
    PER_CENT,
    THEN,
    Row,
    Table,
    direction,
    factor,
    label,
    number,
)
from sweeper.store.code import differing
from sweeper.store.numbers import plural, short

RATE = "optimizer.learning_rate"
# The states of runs without a metric, in words.
WITHOUT = {"done": "done without it", "new": "not started"}
Spreads = Mapping[tuple[str, ...], Spread]
"""The spread between a point's seeds, by `Point.key`. Points of unknown spread are left out."""


def tuned_in_words(experiment: Mapping[str, Any]) -> list[str]:
    """Return sentences on the tuned values of an experiment; [] if it was not tuned."""
    found: Sequence[Mapping[str, Any]] = experiment.get("tuning") or ()
    if not found:
        return []
    names = ", ".join(map(label, found[0]["values"]))
    among = _span([choice["among"] for choice in found])
    points = _span([*Counter(choice["arm"] for choice in found).values()])
    seeds = _span([len(choice["best"]) for choice in found])
    chosen = (
        f"{names} chosen on validation among {among} at {points} points of each arm, the two best "
        f"with {seeds} seeds"
    )
    sentences = [f"{chosen[0].upper()}{chosen[1:]}: {_by_arm(found)}."]
    if at_end := [one for one in found if one["at_end"]]:
        words = (
            "Chosen at an end of the tried range, so a value beyond it may be better"
        )
        sentences.append(f"{words}: {_by_arm(at_end)}.")
    if unsure := [one for one in found if one["alternative"]]:
        count = f"{len(unsure)} of {plural(len(found), 'choice')}"
        errors = _span([float(f"{one['error']:.2g}") for one in unsure])
        sentences.append(
            f"{count} cannot be distinguished from the next best (the error of their difference "
            f"is {errors}), so a verdict must hold with both."
        )
    return sentences


def _by_arm(choices: Sequence[Mapping[str, Any]]) -> str:
    """Return the range of each arm's chosen values in words."""
    by_arm: dict[str, list[Mapping[str, Any]]] = {}
    for one in choices:
        by_arm.setdefault(one["arm"], []).append(one["values"])
    return "; ".join(
        " ".join([arm, *(_span([one[key] for one in own]) for key in own[0])])
        for arm, own in by_arm.items()
    )


def _span(values: Sequence[Any]) -> str:
    """Return different numbers as a range, and other values as a list."""
    known = list(dict.fromkeys(values))
    if len(known) > 1 and all(isinstance(value, int | float) for value in known):
        return f"{min(known):g} to {max(known):g}"
    return ", ".join(f"{v:g}" if isinstance(v, float) else str(v) for v in known)


@dataclass
class Point:
    """One setting of an arm.

    Attributes:
        arm, name: the arm, and the setting in words.
        settings: the keys that the plan varies in this arm, with their values.
        cells: the cells of its rows, by column. If seeds differ, the first value counts.
        values: the metric of finished runs by seed, in the unit of its label (for example per
            cent).
        runs: the run id of every planned seed.
        seconds: the training time of each finished run.
        alternatives: the same setting with other values of the tuned keys that trials cannot tell
            from the chosen ones.
        bounds: the smallest and the largest possible value of the metric.
        logs: whether `values` holds logarithms.
    """

    arm: str
    name: str
    settings: Mapping[str, Any]
    cells: dict[str, Any] = field(default_factory=dict)
    values: dict[int, float] = field(default_factory=dict)
    runs: dict[int, str] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    alternatives: list[Point] = field(default_factory=list)
    bounds: tuple[float, float] = (-math.inf, math.inf)
    logs: bool = False

    def at(self, column: str) -> float | None:
        """Return the number in a column, or None. In `seconds`, it is the mean over seeds."""
        if column == "seconds" and self.seconds:
            return mean(self.seconds)
        return number(self.cells.get(column))

    @property
    def mean(self) -> float:
        """The mean over seeds. The point must have at least one value."""
        return mean(list(self.values.values()))

    @property
    def key(self) -> tuple[str, ...]:
        """The ids of the point's runs, sorted. Points with the same runs count as one."""
        return tuple(sorted(self.runs.values()))

    def interval(self, spreads: Spreads) -> tuple[float, float] | None:
        """Return the interval of the mean, clipped to `bounds`; None if it is unknown."""
        ends = interval(self.mean, len(self.values), spreads.get(self.key))
        smallest, largest = self.bounds
        return ends and (max(ends[0], smallest), min(ends[1], largest))


def rows_of(table: Table, metric: str) -> list[Row]:
    """Return the rows of the runs that measure `metric`.

    Without fine-tuning, these are all rows. With fine-tuning, they are the rows of the tasks with
    this metric, or those of the pre-training if no task has it.
    """
    finetune = table.experiment.get("finetune") or {}
    owners = {task for task, metrics in finetune.items() if metric in metrics}
    if owners:
        return [row for row in table.rows if row.get("task") in owners]
    return [row for row in table.rows if row.get("task") not in finetune]


def metric_of(table: Table, arm: str) -> str:
    """Return the metric of an arm. By default, it is the metric of the experiment."""
    return str(table.experiment["arms"].get(arm, {}).get("metric") or table.metric)


def points(table: Table, metric: str) -> list[Point]:
    """Return the points, in the order of the plan.

    An alternative is not in the list, but in `alternatives` of its point.
    """
    found: dict[str, Point] = {}
    for row in rows_of(table, metric):
        # If the plan varies nothing in an arm, its point has no name.
        arm, name = str(row["arm"]), str(row["point"] or "")
        settings = table.settings.get(name, {})
        new = Point(arm, name, settings, bounds=_bounds(metric, row))
        point = found.setdefault(f"{arm} {name}".strip(), new)
        for column, cell in row.items():
            if point.cells.get(column) is None:
                point.cells[column] = cell
        seed = int(row["seed"])
        point.runs[seed] = str(row["run"])
        value = number(row.get(metric))
        if value is not None:
            point.values[seed] = factor(metric) * value
        if seconds := number(row.get("seconds")):
            point.seconds.append(seconds)
    chosen = []
    for point in found.values():
        chosen_point = found.get(str(point.cells.get("alternative_to")))
        # It is also None for an alternative in an earlier plan that the newest one has chosen.
        if chosen_point is None:
            chosen.append(point)
        else:
            chosen_point.alternatives.append(point)
    return chosen


def _bounds(metric: str, row: Row) -> tuple[float, float]:
    """Return the smallest and the largest possible value of a metric, in the unit of its label."""
    kind = metric.rpartition("/")[2]
    if kind in PER_CENT:
        return 0.0, 100.0
    # The logits q·k of a head have at most the rank of its size.
    size = number(row.get("model.head_size"))
    is_multi_head = row.get("model.attention.name") == "multi_head"
    if kind == "attention_rank" and size and is_multi_head:
        return 0.0, size
    return -math.inf, math.inf


def seed_spread(given: Collection[Point]) -> Spreads:
    """Return the spread of each point, shrunk like that of contrasts (statistics/blocks.py).

    Points with unknown spread are left out: those with a diverged seed, with equal seeds, or with
    less than one degree of freedom.
    """
    from sweeper.results.statistics.blocks import moderated, table_of

    groups = {point.key: point.values for point in given if point.values}
    found = moderated(table_of([*groups.values()]))
    return {
        key: Spread(math.sqrt(variance), df)
        for key, (variance, df) in zip(groups, found, strict=True)
        if 0 < variance < BEYOND**2 and df >= 1
    }


def bent(
    points: Sequence[Point], metric: str
) -> tuple[list[Point], Callable[[float], float]]:
    """Return the points with values on the scale of means and intervals, and the inverse transform.

    The scale is logarithmic if the positive values span a factor of LOGARITHMIC_FROM, unless they
    are in per cent.
    """
    values = [value for point in points for value in point.values.values()]
    linear = metric.rpartition("/")[2] in PER_CENT or not values or min(values) <= 0
    if linear or max(values) / min(values) < LOGARITHMIC_FROM:
        return list(points), float
    found = []
    for point in points:
        logs = {seed: math.log(value) for seed, value in point.values.items()}
        bounds = (-math.inf, math.log(point.bounds[1]))
        found.append(replace(point, values=logs, bounds=bounds, logs=True))
    return found, math.exp


def settings_apart(given: Sequence[Point], x: str) -> Callable[[Point], dict[str, Any]]:
    """Return a function from a point to the settings that distinguish its curve in its arm.

    All other settings change along the curve. These are `x` if the arm varies it, or else the first
    varied key, and all keys that change together with it.
    """
    along: dict[str, set[str]] = {}
    for arm in {point.arm for point in given}:
        every = [point.settings for point in given if point.arm == arm]
        first = x if x in every[0] else next(iter(every[0]), "")
        along[arm] = {first}
        for key in every[0]:
            pairs = {(str(own.get(first)), str(own.get(key))) for own in every}
            one, other = (len(set(values)) for values in zip(*pairs, strict=True))
            if len(pairs) == one == other > 1:
                along[arm].add(key)
    return lambda p: {
        key: v for key, v in p.settings.items() if key not in along[p.arm]
    }


def missing(table: Table) -> str:
    """Return the sentence about runs that lack a metric of the experiment; "" if none does."""
    finetune: Mapping[str, list[str]] = table.experiment.get("finetune") or {}
    without: dict[str, str] = {}
    for row in table.rows:
        wanted = [metric_of(table, str(row["arm"]))]
        if finetune:
            wanted = finetune.get(str(row.get("task")), [])
        measured = all(number(row.get(one)) is not None for one in wanted)
        # A pre-training has no wanted metric, so it is missing until it is done.
        if not measured or (not wanted and row["state"] != "done"):
            without[row["run"]] = str(row["state"])
    if not without:
        return ""
    # A finished run lacks the metric if it trained another task or measured nan.
    counts = Counter(WITHOUT.get(state, state) for state in without.values())
    reason = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    are = "is" if len(without) == 1 else "are"
    runs = plural(len({row["run"] for row in table.rows}), "run")
    return f"{len(without)} of {runs} {are} missing: {reason}."


def origin(table: Table) -> list[str]:
    """Return sentences on the mixed code, the text, the scale and the overrides of a result."""
    text, scale = table.experiment.get("text"), table.experiment.get("scale")
    fixed = f"With {', '.join(table.fixed)}." if table.fixed else ""
    lines = (table.mixed_code, text and f"Text: {text}; {scale} scale.", fixed)
    return [line for line in lines if line]


def caveats(table: Table) -> list[str]:
    """Return sentences on a result's tuning, differences between its runs, and missing runs."""
    found = [*tuned_in_words(table.experiment), *mixed(table), missing(table)]
    return [line for line in found if line]


_VERSIONS = {
    "code": "Runs of {} versions of the program",
    "torch": "Runs with {} versions of PyTorch",
    "device": "Runs on {} kinds of device",
}


def mixed(table: Table) -> list[str]:
    """Return a sentence for each kind of difference between the table's runs.

    The kinds are the versions of the program and of PyTorch, the device, and the prepared data.
    """
    sentences = []
    apart = code_apart(table.rows)
    same_code = apart == [] or table.code is not None
    for column, words in _VERSIONS.items():
        if column == "code" and same_code:
            continue
        cells = (str(row[column]) for row in table.rows if row.get(column))
        found = sorted({one for cell in cells for one in cell.split(THEN)})
        parts = ""
        if column == "code" and apart:
            parts = f"; they differ in {', '.join(apart)}"
        if len(found) > 1 or parts:
            count = max(len(found), 2)
            sentences.append(f"{words.format(count)}: {', '.join(found)}{parts}.")
    digests: dict[str, set[str]] = {}
    for prepared in {str(row["prepared"]) for row in table.rows if row.get("prepared")}:
        text, digest = json.loads(prepared)
        if digest is not None:
            digests.setdefault(text, set()).add(digest[:8])
    for several in digests.values():
        if len(several) > 1:
            listed = ", ".join(sorted(several))
            sentences.append(
                f"Runs on {len(several)} different preparations of one text: {listed}."
            )
    return sentences


def code_apart(rows: Iterable[Row]) -> list[str] | None:
    """Return the parts of the code that differ between the rows' runs.

    Return None if the code of a run is unknown. Versions of the program can differ without a
    difference in these parts.
    """
    parts = (str(row.get("code_parts") or "[]") for row in rows if row.get("code"))
    states = [state for one in parts for state in json.loads(one) or [{}]]
    return differing(states) if all(states) else None


def average(points: Iterable[Point]) -> str:
    """Return the kind of mean that these points show."""
    return "geometric mean" if any(point.logs for point in points) else "mean"


def marks_in_words(points: Collection[Point], *spreads: Spreads) -> list[str]:
    """Return a sentence on the marks of a figure: its means, intervals and seeds."""
    counts = [len(point.values) for point in points if point.values]
    degrees = [round(spread.df) for own in spreads for spread in own.values()]
    if not counts:
        return []
    if not degrees:
        return [
            "One seed per point: the spread between seeds is unknown, so there is no interval."
        ]
    return [
        f"{average(points).capitalize()} of {range_in_words(counts)} seeds, 95 % interval "
        "(Student's t, spread between seeds moderated over points: "
        f"{range_in_words(degrees)} degrees of freedom); faint: every seed."
    ]


def range_in_words(numbers: Collection[int]) -> str:
    """Return "SMALLEST to LARGEST" of these numbers, or the number if they are equal."""
    ends = dict.fromkeys((min(numbers), max(numbers)))
    return " to ".join(map(str, ends))


TASKS = {"squad": "SQuAD", "mnli": "MNLI"}
# Predictors that see little or nothing of the input. Their columns are
# <split>/<baseline>_<metric>. The first predictor of a metric sees nothing.
BASELINES = {
    "majority": "majority class",
    "bag_of_words": "bag of words",
    "unigram": "unigram",
    "bigram": "bigram",
    "trigram": "trigram",
}

# A run has not learned if its lead over a baseline is at most this share of the best run's lead.
_LITTLE = 0.1
_NAMED = 4  # the most settings that a sentence names
# Metrics of language models that are functions of a run's perplexity.
_OF_PERPLEXITY = ("test/loss", "test/perplexity_per_word")


@dataclass(frozen=True)
class Measure:
    """A metric of an experiment. `task` is empty without fine-tuning."""

    task: str
    metric: str

    @property
    def words(self) -> str:
        """The task and the metric in words."""
        return f"{TASKS.get(self.task, self.task)} {label(self.metric)}".strip()

    def points(self, table: Table) -> list[Point]:
        """Return the points of a table with this metric."""
        return points(table, self.metric)

    def baselines(self, table: Table) -> dict[str, float]:
        """Return the mean score of each baseline in the table, by its words, lowest first."""
        split, _, name = self.metric.rpartition("/")
        found = {}
        for baseline, words in BASELINES.items():
            column = f"{split}/{baseline}_{name}"
            cells = [number(row.get(column)) for row in rows_of(table, self.metric)]
            values = [value for value in cells if value is not None]
            if values:
                found[words] = factor(self.metric) * mean(values)
        return dict(sorted(found.items(), key=lambda item: item[1]))

    def not_learned(self, table: Table) -> str:
        """Return a sentence on the seeds that are no better than a baseline; "" if there are none.

        The baseline is a constant guess, if its score is known: the majority class or the unigram
        frequencies. The sentence counts the seeds, and names their points after a colon.
        """
        by = self
        if self.metric in _OF_PERPLEXITY:
            by = replace(self, metric="test/perplexity")
        baselines = by.baselines(table)
        words = next((name for name in BASELINES.values() if name in baselines), None)
        if words is None:
            return ""
        sign, nothing = direction(by.metric), baselines[words]
        points = by.points(table)
        leads = {
            point.runs[seed]: sign * (value - nothing)
            for point in points
            for seed, value in point.values.items()
        }
        least = _LITTLE * max([*leads.values(), abs(nothing) / 2])
        behind = {run for run, lead in leads.items() if lead <= least}
        named = []
        for point in points:
            runs = [point.runs[seed] for seed in point.values]
            if count := len(behind.intersection(runs)):
                setting = f"{table.label(point.arm)} {point.name}".strip()
                named.append(f"{setting} ({count} of {plural(len(runs), 'seed')})")
        if not named:
            return ""
        if len(named) > _NAMED:
            named[_NAMED:] = [f"and {plural(len(named) - _NAMED, 'more setting')}"]
        have, are = ("has", "is") if len(behind) == 1 else ("have", "are")
        learned = f"{len(behind)} of {plural(len(leads), 'run')} {have} not learned"
        rest = f"{are} no better than the {words}: {'; '.join(named)}"
        return f"By {self.words}, {learned} and {rest}."


def not_learned(table: Table) -> list[str]:
    """Return the sentences of all measures on seeds that are no better than a baseline."""
    found = [measure.not_learned(table) for measure in measures_of_arms(table)]
    return [sentence for sentence in found if sentence]


def _trigram(row: Row) -> float | None:
    return number(row.get("test/trigram_perplexity"))


def guides(table: Table) -> dict[str, float]:
    """Return the perplexities of n-gram models by their words; {} if they differ between runs."""
    known = {_trigram(row) for row in table.rows} - {None}
    found = Measure("", table.metric).baselines(table)
    return found if "trigram" in found and len(known) == 1 else {}


def trigram_curve(table: Table, x: str) -> list[tuple[float, float]]:
    """Return the trigram model's perplexity over `x`, in ascending order.

    Return [] unless the perplexity differs, and only along `x`.
    """
    pairs = {(number(row.get(x)), _trigram(row)) for row in table.rows}
    known = [(at, value) for at, value in pairs if at is not None and value is not None]
    differs = len({value for _, value in known}) > 1
    alone = len({at for at, _ in known}) == len(known)
    return sorted(known) if differs and alone else []


def standing(table: Table) -> list[str]:
    """Return a sentence that compares models with n-gram models, for each measure that has them."""
    sentences = []
    for measure in measures_of_arms(table):
        baselines = measure.baselines(table)
        points = [point for point in measure.points(table) if point.values]
        own = [point for point in points if _trigram(point.cells)]
        if not own or "trigram" not in baselines:
            continue
        reached = ", ".join(f"{words} {_extent(table, words)}" for words in baselines)
        own.sort(key=lambda point: point.mean)
        best, worst = (_between(table, measure, own[at]) for at in (0, -1))
        where = f"all models are {best}"
        if best != worst:
            where = f"the best model is {best}, and the worst is {worst}"
        sentences.append(
            f"N-gram models trained on as much text reach {reached}; {where}."
        )
    return sentences


def _extent(table: Table, words: str) -> str:
    """Return the perplexity of an n-gram model, or its range if runs are tested on other rows."""
    cells = (number(row.get(f"test/{words}_perplexity")) for row in table.rows)
    values = [value for value in cells if value is not None]
    ends = (short(min(values), 3), short(max(values), 3))
    return " to ".join(dict.fromkeys(ends))


def _between(table: Table, measure: Measure, point: Point) -> str:
    """Return in words between which n-gram models the mean of a point lies."""
    rows = [row for row in table.rows if row["run"] in point.runs.values()]
    reached = measure.baselines(replace(table, rows=rows))
    better = [words for words, value in reached.items() if value < point.mean]
    worse = [words for words, value in reached.items() if value >= point.mean]
    if not better:
        return f"better than the {worse[0]}"
    if not worse:
        return f"worse than the {better[-1]}"
    return f"between {worse[0]} and {better[-1]}"


def measures(table: Table) -> list[Measure]:
    """Return the measures of an experiment: its metric, or the metrics of its fine-tuned tasks."""
    finetune = table.experiment.get("finetune") or {"": [table.metric]}
    return [
        Measure(task, metric)
        for task, metrics in finetune.items()
        for metric in metrics
    ]


def measures_of_arms(table: Table) -> list[Measure]:
    """Return the measures of an experiment, including its arms' own metrics."""
    if table.experiment.get("finetune"):
        return measures(table)
    own = [metric_of(table, arm) for arm in table.experiment["arms"]]
    return [Measure("", metric) for metric in dict.fromkeys([table.metric, *own])]
