"""The choice between trials: for each setting, the values with the best validation metric.

Only the metric of the validation split counts. A value is worse than any other if one of its trials
diverged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sweeper.results.points import Point, points, seed_spread
from sweeper.results.statistics.estimates import Estimate, Spread, interval, mean
from sweeper.results.table import Row, Table, direction
from sweeper.store.attempts import Cause
from sweeper.store.errors import UserError, sanitize
from sweeper.store.files import canonical
from sweeper.store.runs import State


@dataclass(frozen=True)
class Choice:
    """The values chosen for one setting of an arm.

    Attributes:
        setting: the keys and values of that setting.
        values: the chosen values, by key.
        among: the number of combinations of values that were tried.
        alike: the number of others not clearly worse than the chosen one; None with one seed.
        agreeing: the number of seeds that alone would have given the same choice.
        best, trials: the runs with these values, and all runs that decided.
    """

    arm: str
    setting: Mapping[str, Any]
    values: Mapping[str, Any]
    among: int
    alike: int | None
    agreeing: int
    seeds: int
    best: Sequence[str]
    trials: Sequence[str]


def diverged(row: Row) -> bool:
    """Return whether the run of a row diverged, so that trying again would not help."""
    return row["state"] == State.FAILED and str(row["reason"]).startswith(f"{Cause.NAN}:")


def settled(table: Table) -> bool:
    """Return whether every trial has been measured or has diverged."""
    return all(row["state"] == State.DONE or diverged(row) for row in table.rows)


def choices(table: Table) -> list[Choice]:
    """Return the choice of each setting, in the order of the plan; the table must be settled.

    Raises:
        UserError: a trial has no such metric, or all of a setting diverged.
    """
    for row in table.rows:
        if row["state"] == State.DONE and not isinstance(row.get(table.metric), int | float):
            problem = f"run {sanitize(row['run'])} was trained without {table.metric}"
            remedy = "correct experiment.tune.by, or give other seeds"
            raise UserError(f"{table.name}: {problem}; {remedy}.")
    every, keys, sign = points(table, table.metric), tuned_keys(table), direction(table.metric)
    spread = seed_spread(every)
    groups: dict[str, list[Point]] = {}
    for point in every:
        groups.setdefault(canonical([point.arm, setting_of(table, point)]), []).append(point)

    def score(point: Point) -> float:
        """Return the mean over seeds, larger being better; a diverged seed is the worst."""
        complete = len(point.values) == len(point.runs)
        return sign * mean(list(point.values.values())) if complete else -math.inf

    def as_good(one: Point, other: Point, seed: int) -> bool:
        own, others = one.values, other.values
        return seed not in others or sign * (own[seed] - others[seed]) >= 0

    def alike(one: Point, other: Point, spread: Spread) -> bool:
        """Return whether the 95 % interval of their difference holds 0; both have all seeds."""
        if len(other.values) < len(other.runs):
            return False
        difference = mean(list(one.values.values())) - mean(list(other.values.values()))
        of_two = Spread(math.sqrt(2) * spread.sd, spread.df)
        ends = interval(Estimate(difference, len(one.values), of_two))
        low, high = ends or (difference, difference)
        return low <= 0 <= high

    found = []
    for group in groups.values():
        best = max(group, key=score)
        if math.isinf(score(best)):
            trials = f"{sanitize(best.arm)}, every trial like {sanitize(best.name)}"
            remedy = "give experiment.tune other values"
            raise UserError(f"{table.name}: of {trials} diverged; {remedy}.")
        others = [point for point in group if point is not best]
        found.append(
            Choice(
                arm=best.arm,
                setting=dict(setting_of(table, best)),
                values={key: best.settings[key] for key in keys},
                among=len(group),
                alike=sum(alike(best, one, spread) for one in others) if spread else None,
                agreeing=sum(all(as_good(best, one, seed) for one in others) for seed in best.runs),
                seeds=len(best.runs),
                best=list(best.runs.values()),
                trials=[run for point in group for run in point.runs.values()],
            )
        )
    return found


def tuned_keys(table: Table) -> list[str]:
    """Return the keys whose values trials choose; none for another experiment."""
    return list((table.experiment.get("tune") or {}).get("grid", ()))


def setting_of(table: Table, point: Point) -> tuple[tuple[str, Any], ...]:
    """Return the settings of a point that are not tuned."""
    keys = tuned_keys(table)
    return tuple((key, value) for key, value in point.settings.items() if key not in keys)
