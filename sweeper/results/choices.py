"""The choice that trials make: for each setting, the values that validate best.

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
        values: what was chosen, by key.
        among: how many combinations of values were tried.
        alike: how many others cannot be told from the one chosen; None where there is one seed.
        agreeing: how many of the seeds would have chosen it alone.
        best, trials: the runs with these values, and all that decided.
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
    """Whether the run of a row failed by its numbers: tried again, it would do so again."""
    return row["state"] == State.FAILED and str(row["reason"]).startswith(f"{Cause.NAN}:")


def settled(table: Table) -> bool:
    """Whether every trial has been measured or has diverged."""
    return all(row["state"] == State.DONE or diverged(row) for row in table.rows)


def choices(table: Table) -> list[Choice]:
    """The choice of each setting, in the order of the plan; the table must be settled.

    Raises:
        UserError: a trial has no such metric, or all of a setting diverged.
    """
    for row in table.rows:
        if row["state"] == State.DONE and not isinstance(row.get(table.metric), int | float):
            told = f"{table.name}: run {sanitize(row['run'])} was trained without {table.metric}"
            raise UserError(f"{told}; correct experiment.tune.by, or give other seeds.")
    every = points(table, table.metric)
    groups: dict[str, list[Point]] = {}
    for point in every:
        groups.setdefault(canonical([point.arm, setting_of(table, point)]), []).append(point)
    return [_choice(table, group, seed_spread(every)) for group in groups.values()]


def tuned_keys(table: Table) -> list[str]:
    """The keys that trials choose values of; none in the table of another experiment."""
    return list((table.experiment.get("tune") or {}).get("grid", ()))


def setting_of(table: Table, point: Point) -> tuple[tuple[str, Any], ...]:
    """Return the settings of a point that are not tuned."""
    keys = tuned_keys(table)
    return tuple((key, value) for key, value in point.settings.items() if key not in keys)


def _choice(table: Table, group: Sequence[Point], spread: Spread | None) -> Choice:
    keys, sign = tuned_keys(table), direction(table.metric)
    best = max(group, key=lambda point: _score(point, sign))
    if math.isinf(_score(best, sign)):
        trials = f"{sanitize(best.arm)}, every trial like {sanitize(best.name)}"
        raise UserError(f"{table.name}: of {trials} diverged; give experiment.tune other values.")
    others = [point for point in group if point is not best]
    return Choice(
        arm=best.arm,
        setting=dict(setting_of(table, best)),
        values={key: best.settings[key] for key in keys},
        among=len(group),
        alike=sum(_alike(best, one, spread) for one in others) if spread else None,
        agreeing=sum(all(_beats(best, one, seed, sign) for one in others) for seed in best.runs),
        seeds=len(best.runs),
        best=list(best.runs.values()),
        trials=[run for point in group for run in point.runs.values()],
    )


def _score(point: Point, sign: int) -> float:
    """The mean over seeds, larger being better."""
    whole = len(point.values) == len(point.runs)
    return sign * mean(list(point.values.values())) if whole else -math.inf


def _beats(one: Point, other: Point, seed: int, sign: int) -> bool:
    return seed not in other.values or sign * (one.values[seed] - other.values[seed]) >= 0


def _alike(one: Point, other: Point, spread: Spread) -> bool:
    """Whether the 95 % interval of their difference holds 0; as many seeds each."""
    if len(other.values) < len(other.runs):
        return False
    difference = mean(list(one.values.values())) - mean(list(other.values.values()))
    of_two = Spread(math.sqrt(2) * spread.sd, spread.df)
    low, high = interval(Estimate(difference, len(one.values), of_two)) or (difference, difference)
    return low <= 0 <= high
