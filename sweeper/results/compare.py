"""The comparison of two tables with the same points, seed by seed where they share seeds."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from sweeper.results.collect import Records, collect
from sweeper.results.decision import Measurements
from sweeper.results.judge import verdicts_on
from sweeper.results.points import code_apart, measures_of_arms
from sweeper.results.statistics.estimates import LEVEL, Spread, interval, mean, pooled, spread_of
from sweeper.results.table import DIRECTIONS, Table
from sweeper.results.verdict import Found
from sweeper.store.errors import invalid_value, sanitize
from sweeper.store.numbers import plural
from sweeper.store.plans import plans
from sweeper.store.runs import RunStore

Pair = tuple[str, Mapping[int, float], Mapping[int, float]]
"""The words of a point, and its values by seed in the first and in the second table."""


def differences(one: Table, other: Table) -> Iterator[str]:
    """Yield a line for each measure that both tables show, then one for each point that differs.

    Differences are second minus first; all their intervals hold at once.
    """
    known = measures_of_arms(other)
    for measure in measures_of_arms(one):
        if measure not in known or measure.metric.rpartition("/")[2] not in DIRECTIONS:
            continue
        measured = Measurements(one, measure.metric)
        by_name = {(point.arm, point.name): point for point in measure.points(other)}
        pairs: list[Pair] = []
        for point in measure.points(one):
            if same := by_name.get((point.arm, point.name)):
                before, after = (_judged(p.values, measured) for p in (point, same))
                if before and after:
                    pairs.append((f"{point.arm} {point.name}".strip(), before, after))
        if not pairs:
            yield f"{measure.words}: no point is measured in both."
            continue
        seeds = [(a[seed], b[seed]) for _, a, b in pairs for seed in a.keys() & b.keys()]
        equal = sum(a == b for a, b in seeds)
        values = f"{equal} of {len(seeds)} values of shared seeds are equal to the last digit"
        head = f"{measure.words}: {plural(len(pairs), 'point')} in both; {values}"
        apart = []
        for name, a, b in pairs:
            shared = a.keys() & b.keys()
            if not shared or any(a[seed] != b[seed] for seed in shared):
                apart.append((name, a, b))
        found = _estimates(apart, measured.ratios)
        if found:
            yield f"{head}; where they are not:"
            yield from (f"  {difference}" for difference in found)
        else:
            yield f"{head}: nothing differs."


def _judged(values: Mapping[int, float], measured: Measurements) -> dict[int, float]:
    """Return values by seed on the scale of claims, those that have a place on it."""
    judged = {seed: measured.judged(value) for seed, value in values.items()}
    return {seed: value for seed, value in judged.items() if value is not None}


def _estimates(pairs: Sequence[Pair], ratios: bool) -> list[Found]:
    shared = {name: [b[seed] - a[seed] for seed in a if seed in b] for name, a, b in pairs}
    by_seed = pooled(shared.values())
    apart = pooled([list(side.values()) for _, a, b in pairs for side in (a, b)])
    found = []
    for name, a, b in pairs:
        if len(own := shared[name]) >= min(2, len(a), len(b)):
            value, n, spread = mean(own), len(own), spread_of(own, by_seed)
        else:  # the difference of two means; one shared seed of several would say less
            before, after = ([*side.values()] for side in (a, b))
            value, n, spread = mean(after) - mean(before), 1, None
            left, right = (spread_of(side, apart) for side in (before, after))
            if left and right:
                squares = left.sd**2 / len(before) + right.sd**2 / len(after)
                spread = Spread(math.sqrt(squares), min(left.df, right.df))
        ends = interval(value, n, spread, 1 - (1 - LEVEL) / len(pairs)) or (-math.inf, math.inf)
        found.append(Found(name, value, *ends, ratios))
    return found


def compare(console: Console, outputs: Path, one: str, other: str) -> int:
    """Print the differences between two sweeps, second minus first; return 1 if a claim flipped.

    Args:
        outputs: the folder of plans and experiments that are named without a folder.
        one, other: an outputs folder, the number or file of a plan, or an experiment; the latter
            two in another folder as FOLDER/3 and FOLDER/fig1.

    Raises:
        UserError: one of them does not exist, or they have no experiment in common.
    """
    first, second = ({t.name: t for t in _tables(outputs, word)} for word in (one, other))
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
        for line in _lines(a, b):
            console.print(Text(f"  {line}"), soft_wrap=True)
        before, after = (
            {f"{v.claim}, {v.measure}" if v.measure else v.claim: v.verdict for v in verdicts_on(t)}
            for t in (a, b)
        )
        for claim in sorted(before.keys() ^ after.keys()):
            word = one if claim in before else other
            words = f"  {sanitize(claim)}: only {sanitize(word)} judges it"
            console.print(Text(words), soft_wrap=True)
        for claim, answer in before.items():
            if after.get(claim, answer) is not answer:
                flips += 1
                words = f"  FLIPPED {sanitize(claim)}: {answer} -> {after[claim]}"
                console.print(Text(words, "bold red"), soft_wrap=True)
    if not flips:
        console.print("Every claim that both judge has the same verdict.")
    return 1 if flips else 0


def _lines(one: Table, other: Table) -> Iterator[str]:
    """Yield the differences in program, PyTorch and device, then those of each measure."""
    for column in ("code", "torch", "device"):
        before, after = (
            ", ".join(sorted({str(row[column]) for row in table.rows if row.get(column)}))
            for table in (one, other)
        )
        apart = code_apart([*one.rows, *other.rows]) if column == "code" else None
        parts = "" if apart is None else f" ({', '.join(apart) or 'nothing that trains'} changed)"
        if before != after:
            yield f"{column}: {before or 'none'} -> {after or 'none'}{parts}"
    yield from differences(one, other)


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
        raise invalid_value("compare", word, expected, "correct it, or name an outputs folder")
    return Records(RunStore(folder)).tables(by_number[int(path.name)])
