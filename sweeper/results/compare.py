"""The comparison of two tables with the same points, seed by seed where they share seeds."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from rich.console import Console
from rich.text import Text

from sweeper.results.collect import Records, collect, plain
from sweeper.results.evidence import Evidence
from sweeper.results.judge import rests_on, verdicts_on
from sweeper.results.points import WITHOUT, code_apart, measures_of_arms
from sweeper.results.statistics.blocks import moderated, table_of
from sweeper.results.statistics.estimates import LEVEL
from sweeper.results.table import DIRECTIONS, Table
from sweeper.results.verdict import Found, Unit, Verdict
from sweeper.store.errors import invalid_value, sanitize
from sweeper.store.identity import can_change_results, identity
from sweeper.store.numbers import plural
from sweeper.store.plans import plans
from sweeper.store.runs import RunStore

Name = tuple[str, str]
"""The arm of a point, and its settings in words."""

Values = Mapping[int, float]
"""Values by seed."""


@dataclass(frozen=True)
class Side:
    """A point in one table.

    Attributes:
        values: the metric by seed.
        judged: the same on the scale of claims.
        missing: by seed, why a planned run has no value on that scale.
    """

    values: Values
    judged: Values
    missing: Mapping[int, str]


def differences(one: Table, other: Table) -> Iterator[str]:
    """Yield lines for each measure that both tables show: points that differ, missing values.

    Differences are second minus first; all their intervals hold at once.
    """
    known = measures_of_arms(other)
    for measure in measures_of_arms(one):
        if measure not in known or measure.metric.rpartition("/")[2] not in DIRECTIONS:
            continue
        measured = Evidence(one, measure.metric)
        first, second = (_sides(table, measured) for table in (one, other))
        both = {
            name: (a, b)
            for name, a in first.items()
            if (b := second.get(name)) and a.values and b.values
        }
        seeds = {
            name: [
                a.values[seed] == b.values[seed]
                for seed in a.values.keys() & b.values.keys()
            ]
            for name, (a, b) in both.items()
        }
        equal = list(chain(*seeds.values()))
        apart = {
            name: (a.judged, b.judged)
            for name, (a, b) in both.items()
            if a.judged and b.judged and not (seeds[name] and all(seeds[name]))
        }
        missing = [
            *_missing("first", first, second),
            *_missing("second", second, first),
        ]
        head = f"{measure.words}: no point is measured in both."
        if both:
            values = f"{sum(equal)} of {len(equal)} values of shared seeds are equal"
            shared = plural(len(both), "point")
            head = f"{measure.words}: {shared} in both; {values} to the last digit"
            nothing = "." if missing or not all(equal) else ": nothing differs."
            head += "; where they are not:" if apart else nothing
        yield head
        yield from (
            f"  {line}" for line in (*estimates(apart, measured.ratios), *missing)
        )


def _sides(table: Table, scale: Evidence) -> dict[Name, Side]:
    """Return the points of a table with the metric and on the scale of these measurements."""
    states = {row["run"]: str(row["state"]) for row in table.rows}
    found = {}
    for point in Evidence(table, scale.metric).points:
        scaled = {seed: scale.judged(value) for seed, value in point.values.items()}
        judged = {seed: value for seed, value in scaled.items() if value is not None}
        missing = {
            seed: "of 0 or less"
            if seed in scaled
            else WITHOUT.get(states[run], states[run])
            for seed, run in point.runs.items()
            if seed not in judged
        }
        found[point.arm, point.name] = Side(point.values, judged, missing)
    return found


def _missing(
    word: str, own: Mapping[Name, Side], others: Mapping[Name, Side]
) -> Iterator[str]:
    """Yield a line on the values that one table lacks, unless the other lacks them as well."""
    reasons: Counter[str] = Counter()
    for name, other in others.items():
        if name not in own:
            reasons["not planned"] += len(other.values)
        else:
            missing = own[name].missing.items()
            reasons.update(
                why for seed, why in missing if other.missing.get(seed) != why
            )
    if reasons := +reasons:
        counts = ", ".join(f"{count} {why}" for why, count in reasons.items())
        yield f"missing in the {word}: {counts}."


def estimates(pairs: Mapping[Name, tuple[Values, Values]], ratios: bool) -> list[Found]:
    """Return the differences of points, seed by seed if enough seeds are shared, else of means.

    All their intervals hold at once. Variances are moderated over points (statistics/blocks.py).
    """
    from scipy.special import stdtrit

    unit: Unit = "log ratio" if ratios else "metric"
    by_seed, by_mean = {}, {}
    for name, (before, after) in pairs.items():
        shared = {
            seed: after[seed] - before[seed] for seed in before.keys() & after.keys()
        }
        if len(shared) >= min(2, len(before), len(after)):
            by_seed[name] = shared
        else:  # one shared seed of several would say less
            by_mean[name] = before, after
    level = 1 - (1 - LEVEL) / 2 / max(len(pairs), 1)
    means: dict[Name, list[tuple[float, float, float]]] = {name: [] for name in pairs}
    for names, groups in (
        ([*by_seed], [*by_seed.values()]),
        ([name for name in by_mean for _ in range(2)], [*chain(*by_mean.values())]),
    ):
        for name, group, found in zip(
            names, groups, moderated(table_of(groups)), strict=True
        ):
            mean = math.fsum(group.values()) / len(group)
            means[name].append((mean, found.value / len(group), found.df))
    every = []
    for name, sides in means.items():
        value = sides[-1][0] - (sides[0][0] if len(sides) > 1 else 0.0)
        error = sum(error for _, error, _ in sides)
        lost = sum(error * error / df for _, error, df in sides if df)  # Satterthwaite
        known = math.isfinite(error) and lost > 0
        far = (
            float(stdtrit(error * error / lost, level)) * math.sqrt(error)
            if known
            else math.inf
        )
        every.append(
            Found(" ".join(name).strip(), value, value - far, value + far, unit)
        )
    return every


def compare(console: Console, outputs: Path, one: str, other: str) -> int:
    """Print the differences between two sweeps, second minus first; return 1 if a claim flipped.

    Args:
        outputs: the folder of plans and experiments that are named without a folder.
        one, other: an outputs folder, the number or file of a plan, or an experiment; the latter
            two in another folder as FOLDER/3 and FOLDER/fig1.

    Raises:
        UserError: one of them does not exist, or they have no experiment in common.
    """
    first, second = (
        {t.name: t for t in _tables(outputs, word)} for word in (one, other)
    )
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
            Text(
                f"{sanitize(a.name)}: {sanitize(other)} against {sanitize(one)}", "bold"
            )
        )
        for line in _lines(a, b):
            console.print(Text(f"  {line}"), soft_wrap=True)
        before, after = (
            {
                f"{v.claim}, {v.measure}" if v.measure else v.claim: v
                for v in verdicts_on(t)
            }
            for t in (a, b)
        )
        for claim in sorted(before.keys() ^ after.keys()):
            word = one if claim in before else other
            words = f"  {sanitize(claim)}: only {sanitize(word)} judges it"
            console.print(Text(words), soft_wrap=True)
        for claim, was in before.items():
            now = after.get(claim, was)
            terms = _terms_apart(was, now)
            if now.verdict is not was.verdict:
                flips += 1
                words = f"  FLIPPED {sanitize(claim)}: {was.verdict} -> {now.verdict}"
                terms += _points_apart(a, b, was.claim)
                words += f" ({'; '.join(terms)})" if terms else ""
                console.print(Text(words, "bold red"), soft_wrap=True)
            elif terms:
                console.print(
                    Text(f"  {sanitize(claim)}: {'; '.join(terms)}"), soft_wrap=True
                )
    if not flips:
        console.print("Every claim that both judge has the same verdict.")
    return 1 if flips else 0


def _terms_apart(was: Verdict, now: Verdict) -> list[str]:
    """Return in words the margin, error, number of claims and confidence that differ."""
    if not (was.numbers and now.numbers):  # the points of one cannot decide it
        return []

    def terms(verdict: Verdict) -> dict[str, str]:
        numbers = verdict.numbers
        return {
            "margin": (numbers["margin"] or {}).get("size", "none"),
            "error": f"{numbers['error']:g}",
            "claims": f"{numbers['claims']}",
            "confidence": f"{100 * numbers['confidence']:.4g} %",
        }

    before, after = terms(was), terms(now)
    return [
        f"{key} {before[key]} -> {after[key]}"
        for key in before
        if before[key] != after[key]
    ]


def _points_apart(one: Table, other: Table, claim: str) -> list[str]:
    same = rests_on(one, claim.__eq__) == rests_on(other, claim.__eq__)
    return [] if same else ["it rests on other points"]


def _lines(one: Table, other: Table) -> Iterator[str]:
    """Yield the differences in program, PyTorch, device and configs, then those of each measure."""
    for column in ("code", "torch", "device"):
        before, after = (
            ", ".join(
                sorted({str(row[column]) for row in table.rows if row.get(column)})
            )
            for table in (one, other)
        )
        apart = code_apart([*one.rows, *other.rows]) if column == "code" else None
        parts = (
            ""
            if apart is None
            else f" ({', '.join(apart) or 'nothing that trains'} changed)"
        )
        if before != after:
            yield f"{column}: {before or 'none'} -> {after or 'none'}{parts}"
    yield from _configs_apart(one, other)
    yield from differences(one, other)


def _configs_apart(one: Table, other: Table) -> Iterator[str]:
    """Yield a line for each key with other values in the runs of points that both planned."""
    first, second = (
        {
            (row["arm"], row["point"], row.get("task")): identity(record["config"])
            for row in table.rows
            if (record := table.records.get(row["run"], {}).get("record"))
        }
        for table in (one, other)
    )
    apart: dict[str, list[tuple[str, str]]] = {}
    for before, after in (
        (first[place], second[place]) for place in first if place in second
    ):
        for key in (before.keys() | after.keys()) - {"seed", "parent"}:
            values = [before.get(key), after.get(key)]
            if values[0] != values[1] and can_change_results(key):
                left, right = (
                    sanitize("none" if v is None else plain(v)) for v in values
                )
                apart.setdefault(key, []).append((left, right))
    for key, pairs in sorted(apart.items()):
        before_after = (
            ", ".join(sorted(set(side))) for side in zip(*pairs, strict=True)
        )
        yield f"{sanitize(key)}: {' -> '.join(before_after)} ({plural(len(pairs), 'point')})"


def _tables(outputs: Path, word: str) -> list[Table]:
    """Return the tables of the folder, plan or experiment that a person named."""
    path = Path(word)
    if (path / "plans").is_dir():
        return collect(path)
    if path.suffix == ".json":
        path = path.parent.parent / path.stem
    folder = path.parent if path.parent != Path() else outputs
    if not path.name.isdecimal():
        return collect(folder, [path.name])
    by_number = {plan["number"]: plan for plan in plans(folder)}
    if int(path.name) not in by_number:
        expected = f"the number of a plan in {folder / 'plans'}"
        raise invalid_value(
            "compare", word, expected, "correct it, or name an outputs folder"
        )
    return Records(RunStore(folder)).tables(by_number[int(path.name)])
