"""The choice between trials: for each setting, the values with the best validation metric.

Every combination of values is tried with one seed. The two best of a setting, its finalists, are
tried with a second seed. If they differ by no more than the error of their difference, they are
tried with further seeds. The better mean is chosen. If the finalists still cannot be told apart,
the other one stays as an alternative, and claims are judged with either.
Only the metric of the validation split counts. A value is worse than any other if one of its trials
diverged.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sweeper.results.points import Point, points
from sweeper.results.statistics.blocks import moderated, table_of
from sweeper.results.statistics.estimates import BEYOND, Spread, interval, mean
from sweeper.results.table import Row, Table, direction
from sweeper.store.attempts import Cause
from sweeper.store.errors import UserError, sanitize
from sweeper.store.files import canonical
from sweeper.store.runs import State

FINALISTS = 2
CONFIRMED = 2  # seeds of a finalist, at least


@dataclass(frozen=True)
class Choice:
    """The values chosen for one setting of an arm.

    Attributes:
        setting: the keys and values of that setting.
        values: the chosen values, by key.
        alternative: the other finalist's values if trials cannot tell it from the chosen one.
        among: the number of combinations of values that were tried.
        difference: by which the other finalist is worse, in the metric of the trials.
        error: half the 95 % interval of that difference, by the variance of claims
            (statistics/blocks.py); None if it is unknown.
        best, trials: the runs with the chosen values, and all runs that decided.
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
    """Return whether the run of a row diverged, so that trying again would not help."""
    return row["state"] == State.FAILED and str(row["reason"]).startswith(
        f"{Cause.NAN}:"
    )


def settled(table: Table) -> bool:
    """Return whether every trial has been measured or has diverged."""
    return all(row["state"] == State.DONE or diverged(row) for row in table.rows)


def ranked(table: Table) -> list[list[Point]]:
    """Return the trials of each setting, in the order of the plan.

    The trials of a setting are ordered by their first seed, the best first. Trials with a seed that
    diverged come last. The table must be settled.

    Raises:
        UserError: a trial has no such metric, or all of a setting diverged.
    """
    for row in table.rows:
        if row["state"] == State.DONE and not isinstance(
            row.get(table.metric), int | float
        ):
            problem = f"run {sanitize(row['run'])} was trained without {table.metric}"
            remedy = "correct experiment.tune.by, or give other seeds"
            raise UserError(f"{table.name}: {problem}; {remedy}.")
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
            tried = f"{sanitize(best.arm)}, every trial like {sanitize(best.name)}"
            remedy = "give experiment.tune other values"
            raise UserError(f"{table.name}: of {tried} diverged; {remedy}.")
    return [*groups.values()]


def choices(table: Table) -> list[Choice]:
    """Return the choice of each setting, in the order of the plan; the table must be settled.

    Raises:
        UserError: as `ranked`.
    """
    keys, sign = tuned_keys(table), direction(table.metric)
    settings, apart = [], {}
    for group in ranked(table):
        seeds = max(len(point.runs) for point in group)  # of the finalists
        best, *others = sorted(
            (point for point in group[:FINALISTS] if len(point.values) == seeds),
            key=lambda point: -sign * point.mean,
        )
        settings.append((group, best, others))
        apart[best.key] = {
            seed: sign * (best.values[seed] - other.values[seed])
            for other in others
            for seed in best.values
        }
    # Finalists share their seeds, so differences by seed count; arms with the same runs count once.
    spreads = dict(zip(apart, moderated(table_of([*apart.values()])), strict=True))
    found = []
    for group, best, others in settings:
        differences, (variance, df) = [*apart[best.key].values()], spreads[best.key]
        difference = error = alternative = None
        if others:
            difference = mean(differences)
            if df >= 1 and variance < BEYOND**2:
                ends = interval(0.0, len(differences), Spread(math.sqrt(variance), df))
                error = ends and ends[1]
            if error is not None and difference <= error:
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


def tuned_keys(table: Table) -> list[str]:
    """Return the keys whose values trials choose; none for another experiment."""
    return list((table.experiment.get("tune") or {}).get("grid", ()))


def setting_of(table: Table, point: Point) -> dict[str, Any]:
    """Return the settings of a point that are not tuned."""
    keys = tuned_keys(table)
    return {key: value for key, value in point.settings.items() if key not in keys}
