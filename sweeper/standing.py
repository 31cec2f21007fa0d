"""Where an experiment stands: what its runs have cost, what they say, what would say more."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sweeper.executor import as_data
from sweeper.plan.plan import Plan
from sweeper.results.claims.evidence.verdict import Answer, Verdict
from sweeper.results.collect import Records, before_training
from sweeper.results.judge import check_decidable, rests_on, verdicts_on, wanted
from sweeper.results.table.measures import measures
from sweeper.results.table.table import Table
from sweeper.run.context import device_hours

_EVERY = 10**6  # runs: all that answers are expected to take


@dataclass(frozen=True)
class Standing:
    """What the finished runs of a plan say.

    Attributes:
        judged: by experiment, its table and the verdicts on it.
        spent_h: device hours of the runs.
        until: the claims that are to be decided; all, if none is named.
    """

    judged: Mapping[str, tuple[Table, Sequence[Verdict]]]
    spent_h: float
    until: Sequence[str]

    @classmethod
    def of(cls, plan: Plan, records: Records, until: Sequence[str] = ()) -> Standing:
        """What the runs of a plan say that are finished, and no other run of that folder."""
        tables = records.tables(json.loads(json.dumps(as_data(plan))))  # as from disk
        seconds = {str(row["run"]): row.get("seconds") or 0.0 for t in tables for row in t.rows}
        spent = sum(device_hours(plan.runs[run].config, took) for run, took in seconds.items())
        return cls({table.name: (table, verdicts_on(table)) for table in tables}, spent, until)

    @property
    def verdicts(self) -> list[tuple[str, Verdict]]:
        """Those to be had, by experiment: not on claims that points cannot decide, or not asked."""
        every = [(name, one) for name, (_, found) in self.judged.items() for one in found]
        return [(name, one) for name, one in every if one.numbers and self._asks(one.claim)]

    @property
    def undecided(self) -> Counter[str]:
        """The claims without an answer, and by how many measures each has none."""
        return Counter(
            f"{name}/{verdict.claim}" if len(self.judged) > 1 else verdict.claim
            for name, verdict in self.verdicts
            if verdict.verdict is Answer.UNDECIDED
        )

    def seeds(self, most: int, runs: int | None = None) -> dict[str, int]:
        """How many seeds points should have next, by the run of a point's first; empty if none.

        None beyond `most`. At about `runs` runs at once, each experiment has a share for the points
        that it needs; of None as many as the answers are expected to take in all.
        """
        tables = {name: table for name, (table, _) in self.judged.items()}
        every = {name: wanted(table, most, _EVERY, self._asks) for name, table in tables.items()}
        points, before = sum(map(len, every.values())), 0
        found: dict[str, int] = {}
        for name, table in tables.items():
            after = before + len(every[name])
            if runs is not None and after > before:
                share = runs * after // points - runs * before // points
                every[name] = wanted(table, most, share, self._asks) if share else {}
            before = after
            verdicts = [verdict for of, verdict in self.verdicts if of == name]
            for run, seeds in _by_first_run(table, verdicts, every[name]).items():
                found[run] = max(found.get(run, 0), seeds)
        return found

    def _asks(self, claim: str) -> bool:
        return not self.until or claim in self.until

    def points(self) -> set[str]:
        """The points that claims rest on, each by the run of its first seed."""
        found: set[str] = set()
        for table, verdicts in self.judged.values():
            points = dict.fromkeys(rests_on(table, self._asks), 0)
            found |= _by_first_run(table, verdicts, points).keys()
        return found

    def described(self) -> dict[str, Any]:
        """The verdicts as plain data, for a plan to keep."""
        return {
            name: [
                {
                    "claim": verdict.claim,
                    "measure": verdict.measure,
                    "answer": str(verdict.verdict),
                    "contrasts": [
                        {end: _finite(found[end]) for end in ("value", "low", "high")}
                        for found in verdict.numbers.get("contrasts", [])
                    ],
                }
                for verdict in verdicts
            ]
            for name, (_, verdicts) in self.judged.items()
        }


def _by_first_run(
    table: Table, verdicts: Sequence[Verdict], more: Mapping[tuple[str, str], int]
) -> dict[str, int]:
    """Seeds in all, by the run of a point's first, of seeds to add by (arm, point).

    Where models are fine-tuned, on the tasks alone that something undecided is measured on.
    """
    tuned = table.experiment.get("finetune") or {}
    without = {one.measure for one in verdicts if one.verdict is Answer.UNDECIDED}
    tasks = {one.task for one in measures(table) if one.words in without}
    runs: dict[tuple[Any, ...], list[str]] = {}
    for row in table.rows:
        if not tuned or row["task"] in tasks:
            point = (row["arm"], row["point"] or "", row["task"])
            runs.setdefault(point, []).append(str(row["run"]))
    counts: dict[str, int] = {}
    for (arm, name, _), ids in runs.items():
        if (arm, name) in more:
            counts[ids[0]] = max(counts.get(ids[0], 0), len(ids) + more[arm, name])
    return counts


def check_claims(plan: Plan) -> None:
    """UserError for claims that the points of the plan cannot decide, whatever is measured."""
    configs = {run.id: run.config for run in plan.runs.values()}
    for table in before_training(as_data(plan), configs):
        check_decidable(table)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
