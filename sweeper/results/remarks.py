"""Sentences printed below tables, figures and verdicts: on data, tuning, baselines and caveats."""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from sweeper.results.points import (
    BASELINES,
    TRIGRAM,
    Measure,
    Point,
    Spreads,
    baselines,
    measures_of_arms,
    metric_of,
    numbers,
    points,
)
from sweeper.results.table import THEN, Data, Table, direction, label, number
from sweeper.store.files import canonical
from sweeper.store.numbers import plural, short

_VERSIONS = {
    "code": "Runs of {} versions of the program",
    "torch": "Runs with {} versions of PyTorch",
    "device": "Runs on {} kinds of device",
}
# The lead of a run is its improvement over a baseline, divided by the baseline's score. A run has
# not learned if its lead is at most _LITTLE * max(0.5, the largest lead of any run).
_LITTLE = 0.1
_NAMED = 4  # a sentence names at most this many settings
# Baselines have no scores in these metrics. Compare the perplexity of runs and baselines instead,
# because these metrics are functions of perplexity.
_OF_PERPLEXITY = ("test/loss", "test/perplexity_per_word")


def span(values: Collection[Any]) -> str:
    """Return values as text: numbers as a range ("2 to 16"), others as a list ("a, b")."""
    known = list(dict.fromkeys(values))
    if len(known) > 1 and all(isinstance(value, int | float) for value in known):
        return f"{min(known):g} to {max(known):g}"
    return ", ".join(f"{v:g}" if isinstance(v, float) else str(v) for v in known)


def origin(table: Table) -> list[str]:
    """Return sentences on how the runs were trained: code, dataset, scale and overrides."""
    text, scale = table.experiment.get("text"), table.experiment.get("scale")
    fixed = f"With {', '.join(table.fixed)}." if table.fixed else ""
    lines = (table.mixed_code, text and f"Text: {text}; {scale} scale.", fixed)
    return [line for line in lines if line]


def caveats(table: Table) -> list[str]:
    """Return sentences on tuning, on differences between runs, and on runs without results."""
    found = [
        *tuned_in_words(table.experiment),
        *mixed(table),
        missing(table),
        left_out(table),
    ]
    return [line for line in found if line]


def tuned_in_words(experiment: Data) -> list[str]:
    """Return sentences on the values that tuning chose; [] if the experiment was not tuned."""
    found: Sequence[Data] = experiment.get("tuning") or ()
    if not found:
        return []
    names = ", ".join(map(label, found[0]["values"]))
    among = span([choice["among"] for choice in found])
    seeds = span([len(choice["best"]) for choice in found])
    sentences = [
        f"{names[:1].upper()}{names[1:]}: tuning tried {among} values, and the best two with "
        f"{seeds} seeds. By the validation split, it chose: {_by_arm(found)}."
    ]
    if at_end := [one for one in found if one["at_end"]]:
        words = "At an end of the tried range, so a value beyond it may be better"
        sentences.append(f"{words}: {_by_arm(at_end)}.")
    if unsure := [one for one in found if one["alternative"]]:
        count = f"{len(unsure)} of {plural(len(found), 'choice')}"
        words = "cannot be distinguished from the next best value, so a verdict must hold with both"
        sentences.append(f"{count} {words}.")
    return sentences


def _by_arm(choices: Sequence[Data]) -> str:
    """Return the range of the chosen values in each arm: "fixed 0.01 to 0.02; standard 0.01"."""
    by_arm: dict[str, list[Data]] = defaultdict(list)
    for one in choices:
        by_arm[one["arm"]].append(one["values"])
    return "; ".join(
        " ".join([arm, *(span([one[key] for one in own]) for key in own[0])])
        for arm, own in by_arm.items()
    )


def not_drawn(table: Table, points: Collection[Point]) -> list[str]:
    """Return a sentence on the arms that a figure leaves out because another metric judges them.

    Return [] if there are none. `points` are the points in the figure.
    """
    drawn = {point.arm for point in points}
    metrics = {arm: metric_of(table, arm) for arm in table.experiment["arms"]}
    left_out = [
        f"{table.label(arm)} ({label(metric)})"
        for arm, metric in metrics.items()
        if metric != table.metric and arm not in drawn
    ]
    if not left_out:
        return []
    arms = ", ".join(left_out)
    return [f"The figure leaves out arms that are judged by another metric: {arms}."]


def missing(table: Table) -> str:
    """Return a sentence on the runs without the metric that judges them; "" if there are none."""
    finetune: Mapping[str, list[str]] = table.experiment.get("finetune") or {}
    without: dict[str, str] = {}
    for row in table.rows:
        wanted = [metric_of(table, str(row["arm"]))]
        if finetune:
            wanted = finetune.get(str(row.get("task")), [])
        absent = [one for one in wanted if number(row.get(one)) is None]
        state = str(row.get("state"))
        if state == "done" and absent:
            state = f"done without {' and '.join(absent)}"
        if state != "done":
            without[row["run"]] = "not started" if state == "new" else state
    if not without:
        return ""
    counts = Counter(without.values())
    reason = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    runs = plural(len({row["run"] for row in table.rows}), "run")
    return f"{len(without)} of {runs} missing: {reason}."


def left_out(table: Table) -> str:
    """Return a sentence on finished runs with seeds that are not in the plan; "" if there are none.

    Such runs belong to other plans with the same claims.
    """
    runs = table.provenance.get("left_out") or ()
    return (
        f"Left out: {plural(len(runs), 'finished run')} with other seeds."
        if runs
        else ""
    )


def mixed(table: Table) -> list[str]:
    """Return sentences on differences between the table's runs.

    There is a sentence if they differ in the version of the program, the version of PyTorch, the
    kind of device, or the data that was prepared from one dataset.
    """
    sentences = []
    for column, words in _VERSIONS.items():
        if column == "code" and table.code is not None:
            continue  # `Table.mixed_code` describes differences in code in more detail
        cells = [str(row[column]) for row in table.rows if row.get(column)]
        found = sorted({one for cell in cells for one in cell.split(THEN)})
        if len(found) > 1:
            sentences.append(f"{words.format(len(found))}: {', '.join(found)}.")

    digests: dict[str, set[str]] = defaultdict(set)
    for files in table.files.values():
        digest = files.result and files.result.data.get("sha256")
        if digest:
            sections = [files.sections.get("data"), files.sections.get("task")]
            digests[canonical(sections)].add(digest[:8])
    for several in digests.values():
        if len(several) > 1:
            listed = ", ".join(sorted(several))
            words = f"{len(several)} different preparations of the same data"
            sentences.append(f"Runs on {words}: {listed}.")
    return sentences


def matching_errors(table: Table) -> list[str]:
    """Return a sentence for each column in which points are matched, with the largest deviation."""
    worst: dict[str, float] = {}
    for row in table.rows:
        error = number(row.get("match_error"))
        if error is not None:
            count = str(row["match_count"])
            worst[count] = max(worst.get(count, 0.0), abs(error))

    return [
        f"Matched points and their targets have equal {label(count)} within "
        f"{max(math.ceil(error * 1e4) / 100, 0.01):.2f} %."
        for count, error in sorted(worst.items())
    ]


def marks_in_words(points: Collection[Point], *spreads: Spreads) -> list[str]:
    """Return a sentence that explains the marks of a figure: means, intervals and single seeds.

    Return [] if there are no values. The sentence names the range of the degrees of freedom in
    `spreads`, which has the variances of the points for each metric drawn.
    """
    counts = [len(point.values) for point in points if point.values]
    degrees = [round(spread.df) for own in spreads for spread in own.values()]
    if not counts:
        return []
    if not degrees:
        return [
            "One seed per point: the spread between seeds is unknown, so there is no interval."
        ]
    average = "Geometric mean" if any(point.logs for point in points) else "Mean"
    return [
        f"{average} of {span(counts)} seeds with its 95 % interval (Student's t, variances "
        f"moderated over points, {span(degrees)} degrees of freedom). Faint marks are single seeds."
    ]


def one_pretraining(table: Table, points: Collection[Point]) -> Iterator[str]:
    """Yield a warning if all seeds of some point start from the same pre-training."""
    parents = {row["run"]: row.get("parent") for row in table.rows}
    for point in points:
        of_seeds = {parents[run] for run in point.runs.values()}
        if len(point.runs) > len(of_seeds) == 1 and None not in of_seeds:
            yield (
                "All seeds of a point start from one pre-training, so the spread between "
                "pre-trainings is unknown."
            )
            return


def baseline_scores(table: Table) -> list[str]:
    """Return sentences on the scores of baselines, one for each metric that has baselines.

    For perplexity, the sentence also says between which n-gram models the runs are.
    """
    sentences = []
    for measure in measures_of_arms(table):
        models = baselines(measure.metric, table.rows)
        points = [point for point in measure.points(table) if point.values]
        own = [point for point in points if point.at(TRIGRAM)]
        if own and "trigram" in models:
            reached = ", ".join(f"{words} {_extent(table, words)}" for words in models)
            own.sort(key=lambda point: point.mean)
            best, worst = (_between(measure.metric, own[at]) for at in (0, -1))
            every = (
                "All models" if len(own) == len(points) else "Models without a parent"
            )
            where = f"{every} are {best}"
            if best != worst:
                where = f"The best model is {best}, and the worst is {worst}"
            sentences.append(
                f"N-gram models trained on the same amount of text: {reached}. {where}."
            )
        elif models:
            scores = [f"{words} {value:.2f}" for words, value in models.items()]
            sentences.append(f"Baselines by {measure.words}: {', '.join(scores)}.")
    return sentences


def _extent(table: Table, words: str) -> str:
    """Return the perplexity of the n-gram model `words`, such as "trigram", as text.

    If runs differ in their test data, return the range of the perplexities.
    """
    values = numbers(table.rows, f"test/{words}_perplexity")
    ends = (short(min(values), 3), short(max(values), 3))
    return " to ".join(dict.fromkeys(ends))


def _between(metric: str, point: Point) -> str:
    """Return between which n-gram models the mean of a point is: "between bigram and trigram"."""
    reached = baselines(metric, [point.cells])
    better = [words for words, value in reached.items() if value < point.mean]
    worse = [words for words, value in reached.items() if value >= point.mean]
    if not better:
        return f"better than the {worse[0]}"
    if not worse:
        return f"worse than the {better[-1]}"
    return f"between {worse[0]} and {better[-1]}"


def not_learned(table: Table) -> list[str]:
    """Return a sentence for each metric by which some runs are hardly better than a baseline."""
    found = [not_learned_by(one, table) for one in measures_of_arms(table)]
    return [sentence for sentence in found if sentence]


def not_learned_by(measure: Measure, table: Table) -> str:
    """Return a sentence on the runs that are hardly better than a baseline; "" if there are none.

    The baseline is the first of BASELINES whose score is known, such as the majority class. Each
    run is compared with the baseline's score on its own data. The sentence counts the runs, and
    after a colon it names their points.
    """
    metric = measure.metric
    if metric in _OF_PERPLEXITY:
        metric = "test/perplexity"
    scores = baselines(metric, table.rows)
    words = next((name for name in BASELINES.values() if name in scores), None)
    if words is None:
        return ""

    rows = {row["run"]: row for row in table.rows}
    # The lead of a run is how much better it is than its baseline, as a share of the baseline's
    # score.
    leads: dict[str, float] = {}
    found = points(table, metric)
    for point in found:
        for seed, value in point.values.items():
            run = point.runs[seed]
            score = baselines(metric, [rows[run]]).get(words, scores[words])
            lead = direction(metric) * (value - score)
            leads[run] = lead / (abs(score) or 1.0)
    least = _LITTLE * max([*leads.values(), 0.5])
    behind = {run for run, lead in leads.items() if lead <= least}
    if not behind:
        return ""

    named = []
    for point in found:
        runs = [point.runs[seed] for seed in point.values]
        if count := len(behind.intersection(runs)):
            setting = f"{table.label(point.arm)} {point.name}".strip()
            named.append(f"{setting} ({count} of {plural(len(runs), 'seed')})")
    if len(named) > _NAMED:
        named[_NAMED:] = [f"and {plural(len(named) - _NAMED, 'more setting')}"]
    runs_behind = f"{len(behind)} of {plural(len(leads), 'run')}"
    rest = f"did not learn and scored at most slightly better than the {words}: {'; '.join(named)}"
    return f"By {measure.words}, {runs_behind} {rest}."
