"""What differs between two tables of the same points: seed by seed where they share seeds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from sweeper.results.claims.evidence.decision import Measurements
from sweeper.results.claims.evidence.verdict import Found, Verdict
from sweeper.results.collect import Records
from sweeper.results.judge import verdicts_on
from sweeper.results.points import Measure, Point, code_apart, measures
from sweeper.results.statistics.estimates import LEVEL, Estimate, Spread, estimate, interval, pooled
from sweeper.results.table import Table, direction
from sweeper.store.errors import invalid_value, sanitize
from sweeper.store.plans import planned, plans
from sweeper.store.runs import RunStore


@dataclass(frozen=True)
class Differences:
    """By one measure.

    Attributes:
        points: how many both tables have a value of.
        same: of the seeds that these share, how many have equal values.
        shared: how many seeds that are.
        found: the second less the first where they differ, as goodness; all intervals hold at once.
    """

    measure: str
    points: int
    same: int
    shared: int
    found: Sequence[Found]


def differences(one: Table, other: Table) -> list[Differences]:
    """By each measure that both tables show."""
    known = {measure: measure for measure in measures(other)}
    return [_by(measure, one, other) for measure in measures(one) if measure in known]


def flipped(one: Table, other: Table) -> list[tuple[Verdict, Verdict]]:
    """The claims of both tables that have another answer in the second."""
    after = {(verdict.claim, verdict.measure): verdict for verdict in verdicts_on(other)}
    pairs = [(before, after.get((before.claim, before.measure))) for before in verdicts_on(one)]
    return [(a, b) for a, b in pairs if b is not None and a.verdict is not b.verdict]


def _by(measure: Measure, one: Table, other: Table) -> Differences:
    ratios = Measurements(one, measure.metric).ratios
    pairs = [
        (f"{a.arm} {a.name}".strip(), _scaled(a, measure, ratios), _scaled(b, measure, ratios))
        for a, b in _pairs(measure.points(one), measure.points(other))
    ]
    pairs = [(name, a, b) for name, a, b in pairs if a and b]
    seeds = [(a[seed], b[seed]) for _, a, b in pairs for seed in a.keys() & b.keys()]
    changed = [(name, a, b) for name, a, b in pairs if _differ(a, b)]
    return Differences(
        measure.words,
        len(pairs),
        sum(a == b for a, b in seeds),
        len(seeds),
        _found(changed, ratios),
    )


def _pairs(one: Sequence[Point], other: Sequence[Point]) -> list[tuple[Point, Point]]:
    by_name = {(point.arm, point.name): point for point in other}
    own = [(point, by_name.get((point.arm, point.name))) for point in one]
    return [(a, b) for a, b in own if b is not None]


def _scaled(point: Point, measure: Measure, ratios: bool) -> dict[int, float]:
    """Its values by seed, larger being better, as claims judge them."""
    better, values = direction(measure.metric), point.values
    if ratios:
        values = {seed: math.log(value) for seed, value in values.items() if value > 0}
    return {seed: better * value for seed, value in values.items()}


Pair = tuple[str, Mapping[int, float], Mapping[int, float]]


def _differ(a: Mapping[int, float], b: Mapping[int, float]) -> bool:
    """Whether a seed that both have differs; where they share none, whether any does."""
    shared = a.keys() & b.keys()
    return any(a[seed] != b[seed] for seed in shared) if shared else a != b


def _found(pairs: Sequence[Pair], ratios: bool) -> list[Found]:
    shared = {name: [b[seed] - a[seed] for seed in a if seed in b] for name, a, b in pairs}
    by_seed = pooled(shared.values())
    apart = pooled([list(side.values()) for _, a, b in pairs for side in (a, b)])
    found = []
    for name, a, b in pairs:
        own = shared[name]
        known = estimate(own, by_seed) if own else _apart(a, b, apart)
        ends = interval(known, 1 - (1 - LEVEL) / len(pairs)) or (-math.inf, math.inf)
        found.append(Found(name, known.mean, *ends, ratios))
    return found


def _apart(a: Mapping[int, float], b: Mapping[int, float], spread: Spread | None) -> Estimate:
    """The difference of the means of two groups that share no seed, as of one value."""
    one, other = (estimate(list(side.values()), spread) for side in (a, b))
    mean = other.mean - one.mean
    if one.spread is None or other.spread is None:
        return Estimate(mean, 1, None)
    squares = one.spread.sd**2 / one.n + other.spread.sd**2 / other.n
    return Estimate(mean, 1, Spread(math.sqrt(squares), min(one.spread.df, other.spread.df)))


def compare(console: Console, outputs: Path, one: str, other: str) -> int:
    """Print what differs between two sweeps, the second less the first; 1 if an answer flipped.

    Args:
        outputs: the folder of what is named without one.
        one, other: an outputs folder, a plan by its number or file, an experiment; the latter two
            of another folder as in FOLDER/3 and FOLDER/fig1.

    Raises:
        UserError: there is no such thing, or the two have no experiment in common.
    """
    first, second = (_tables(outputs, word) for word in (one, other))
    pairs = [(first[name], second[name]) for name in first if name in second]
    if len(first) == len(second) == 1:
        pairs = [(next(iter(first.values())), next(iter(second.values())))]
    if not pairs:
        expected = f"sweeps of one experiment; {one} has {', '.join(first)}"
        raise invalid_value(
            "compare", other, expected, "name an experiment of each, as in FOLDER/fig1"
        )
    flips = 0
    for a, b in pairs:
        console.print(
            Text(f"{sanitize(a.name)}: {sanitize(other)} against {sanitize(one)}", "bold")
        )
        measured = (line for found in differences(a, b) for line in _lines(found))
        for line in (*_made_with(a, b), *measured):
            console.print(Text(f"  {line}"), soft_wrap=True)
        for before, after in flipped(a, b):
            flips += 1
            claim = f"{before.claim}, {before.measure}" if before.measure else before.claim
            words = f"  FLIPPED {sanitize(claim)}: {before.verdict} -> {after.verdict}"
            console.print(Text(words, "bold red"), soft_wrap=True)
    if not flips:
        console.print("No claim has another answer.")
    return 1 if flips else 0


def _made_with(one: Table, other: Table) -> Iterator[str]:
    """What the runs of the two were trained with beside what their plans say, where it differs."""
    for column in ("code", "torch", "device"):
        before, after = (
            ", ".join(sorted({str(row[column]) for row in table.rows if row.get(column)}))
            for table in (one, other)
        )
        apart = code_apart([*one.rows, *other.rows]) if column == "code" else None
        told = "" if apart is None else f" ({', '.join(apart) or 'nothing that trains'} changed)"
        if before != after:
            yield f"{column}: {before or 'none'} -> {after or 'none'}{told}"


def _lines(found: Differences) -> list[str]:
    values = f"{found.same} of {found.shared} values of shared seeds are equal to the last digit"
    head = f"{found.measure}: {found.points} points in both; {values}"
    if not found.found:
        return [f"{head}: nothing differs." if found.points else f"{head}."]
    return [f"{head}; where they are not:", *(f"  {one}" for one in found.found)]


def _tables(outputs: Path, word: str) -> dict[str, Table]:
    """The tables of what a person named, by experiment."""
    path = Path(word)
    if (path / "plans").is_dir():
        return _collected(path, planned(path))
    if path.suffix == ".json":
        path = path.parent.parent / path.stem
    folder = path.parent if path.parent != Path() else outputs
    if not path.name.isdigit():
        return _collected(folder, planned(folder, [path.name]))
    by_number = {plan["number"]: plan for plan in plans(folder)}
    if int(path.name) not in by_number:
        expected = f"the number of a plan in {folder / 'plans'}"
        raise invalid_value("compare", word, expected, "correct it, or name an outputs folder")
    plan = by_number[int(path.name)]
    return _collected(folder, dict.fromkeys(plan["experiments"], plan))


def _collected(folder: Path, found: Mapping[str, Mapping[str, Any]]) -> dict[str, Table]:
    records = Records(RunStore(folder))
    tables = {}
    for name, plan in found.items():
        [tables[name]] = records.tables({**plan, "experiments": {name: plan["experiments"][name]}})
    return tables
