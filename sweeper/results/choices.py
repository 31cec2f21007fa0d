"""Choose the values of tuned keys, such as the learning rate, from trial runs.

The choice is made for each setting: a point of an arm, such as heads=8, without the tuned keys. A
trial is a run with one combination of tuned values. First, every combination is tried with one
seed. The two best are the finalists, and are tried with a second seed. If their difference is
smaller than its error, they are tried with further seeds. The finalist with the better mean is
chosen. If the difference is still smaller than its error, the other finalist stays as an
alternative, and claims must hold with both.

Trials are compared by a metric on the validation split. Combinations with a diverged trial rank
last.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from sweeper.results.points import Point, points
from sweeper.results.statistics.blocks import moderated, student_interval, table_of
from sweeper.results.table import Row, Table, direction, number
from sweeper.store.attempts import Cause
from sweeper.store.errors import UserError, sanitize
from sweeper.store.files import canonical
from sweeper.store.runs import State

FINALISTS = 2
CONFIRMED = 2  # every finalist is tried with at least this many seeds


@dataclass(frozen=True)
class Choice:
    """The values chosen for one setting of an arm.

    Attributes:
        arm: the arm.
        setting: the keys that the plan varies, except the tuned ones, with their values, for
            example {"model.heads": 8}.
        values: the chosen values of the tuned keys, by key.
        alternative: the values of the other finalist, by key, if `difference` is at most `error`;
            else None.
        among: the number of combinations of values that were tried.
        difference: how much worse the mean of the other finalist is than that of the chosen one, in
            the metric of the trials. None if there is no other finalist.
        error: half the width of the 95 % interval of `difference`; None if it is unknown. The
            variance is estimated as for claims (statistics/blocks.py).
        best: the ids of the trials with the chosen values.
        trials: the ids of all trials of this setting.
    """

    arm: str
    setting: Mapping[str, Any]
    values: Mapping[str, Any]
    alternative: Mapping[str, Any] | None
    among: int
    difference: float | None
    error: float | None
    best: Sequence[str]
    trials: Sequence[str]


def diverged(row: Row) -> bool:
    """Return whether the run of this row failed because its loss became NaN."""
    return row["state"] == State.FAILED and str(row["reason"]).startswith(
        f"{Cause.NAN}:"
    )


def settled(table: Table) -> bool:
    """Return whether every trial has finished or diverged."""
    return all(row["state"] == State.DONE or diverged(row) for row in table.rows)


def ranked(table: Table) -> list[list[Point]]:
    """Return a list for each setting, with a point for each combination of values, best first.

    Settings are in the order of the plan. Combinations are sorted by the metric of their first
    seed. Those with a diverged seed come last. Every trial must have finished or diverged
    (`settled`).

    Raises:
        UserError: a trial lacks the metric, or all trials of a setting diverged.
    """
    for row in table.rows:
        if row["state"] == State.DONE and number(row.get(table.metric)) is None:
            problem = f"run {sanitize(row['run'])} was trained without {table.metric}"
            remedy = "correct experiment.tune.by, or train new trials with other seeds"
            raise UserError(
                f"{table.name}: {problem}; {remedy} (experiment.tune.seeds)."
            )
    groups: dict[str, list[Point]] = {}
    for point in points(table, table.metric):
        setting = canonical([point.arm, setting_of(table, point)])
        groups.setdefault(setting, []).append(point)
    sign = direction(table.metric)

    def first(point: Point) -> float:
        if len(point.values) < len(point.runs):
            return -math.inf
        return sign * point.values[next(iter(point.runs))]

    for group in groups.values():
        group.sort(key=first, reverse=True)
        best = group[0]
        if len(best.values) < len(best.runs):
            tried = f"{sanitize(best.arm)} {sanitize(best.name)}"
            raise UserError(
                f"{table.name}: all trials of a point diverged, for example {tried}; set other "
                "values in experiment.tune."
            )
    return [*groups.values()]


def choices(table: Table) -> list[Choice]:
    """Return the choice of each setting, in the order of the plan.

    Every trial must have finished or diverged (`settled`).

    Raises:
        UserError: a trial lacks the metric, or all trials of a setting diverged.
    """
    keys, sign = tuned_keys(table), direction(table.metric)
    groups, apart = ranked(table), {}
    finalists = [_finalists(group, sign) for group in groups]
    for best, *others in finalists:
        apart[best.key] = {
            seed: sign * (best.values[seed] - other.values[seed])
            for other in others
            for seed in best.values
        }
    # Finalists are trained with the same seeds, so estimate the variance of their paired
    # differences. `apart` maps the best finalist, by its runs, to the difference for each seed. Two
    # arms that share this finalist have the same key, so it counts once.
    variances = dict(zip(apart, moderated(table_of([*apart.values()])), strict=True))

    found = []
    for group, (best, *others) in zip(groups, finalists, strict=True):
        difference = error = alternative = None
        if others:
            differences, variance = apart[best.key].values(), variances[best.key]
            difference = fmean(differences)
            if variance.known:
                _, error = student_interval(0.0, len(differences), variance)
                if difference <= error:
                    alternative = {key: others[0].settings[key] for key in keys}
        found.append(
            Choice(
                arm=best.arm,
                setting=setting_of(table, best),
                values={key: best.settings[key] for key in keys},
                alternative=alternative,
                among=len(group),
                difference=difference,
                error=error,
                best=list(best.runs.values()),
                trials=[run for point in group for run in point.runs.values()],
            )
        )
    return found


def _finalists(group: Sequence[Point], sign: int) -> list[Point]:
    """Return the finalists of a setting, which are tried with further seeds, best mean first.

    Leave out finalists with a diverged seed.

    Args:
        group: the points of the setting, as sorted by `ranked`.
        sign: 1 if larger values of the metric are better, else -1.
    """
    seeds = max(len(point.runs) for point in group)
    confirmed = [one for one in group[:FINALISTS] if len(one.values) == seeds]
    return sorted(confirmed, key=lambda point: -sign * point.mean)


def tuned_keys(table: Table) -> list[str]:
    """Return the tuned keys of the experiment, such as "optimizer.learning_rate", or []."""
    return list((table.experiment.get("tune") or {}).get("grid", ()))


def setting_of(table: Table, point: Point) -> dict[str, Any]:
    """Return the varied keys of a point with their values, without the tuned keys."""
    keys = tuned_keys(table)
    return {key: value for key, value in point.settings.items() if key not in keys}
