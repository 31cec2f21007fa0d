"""Compare the code, configs, values and verdicts of two sweeps."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from sweeper.results.collect import collect, plain
from sweeper.results.judge import verdicts_on
from sweeper.results.points import Point, measures_of_arms
from sweeper.results.table import Data, Table
from sweeper.results.verdict import Verdict
from sweeper.store.errors import UserError, sanitize
from sweeper.store.identity import can_change_results, identity
from sweeper.store.numbers import plural

Name = tuple[str, str]
"""The arm and the name of a point."""


def compare(console: Console, outputs: Path, one: str, other: str) -> int:
    """Print the changes from one sweep to the other. Return 1 if a verdict flipped, else 0.

    Args:
        console: the terminal.
        outputs: the outputs folder for experiments that are named without a folder.
        one, other: an outputs folder, an experiment in `outputs`, or FOLDER/EXPERIMENT.

    Raises:
        UserError: a sweep does not exist, or the sweeps have no experiment in common.
    """
    first = {table.name: table for table in _tables(outputs, one)}
    second = {table.name: table for table in _tables(outputs, other)}
    pairs = [(first[name], second[name]) for name in first if name in second]
    if len(first) == len(second) == 1:
        pairs = list(zip(first.values(), second.values(), strict=True))
    if not pairs:
        raise UserError(
            f"{sanitize(one)} and {sanitize(other)} have no experiment in common; name an "
            "experiment of each, such as FOLDER/fig1."
        )

    shared = flips = 0
    for a, b in pairs:
        heading = f"{sanitize(a.name)}: {sanitize(other)} against {sanitize(one)}"
        console.print(Text(heading, "bold"))
        before, after = _verdicts(a), _verdicts(b)
        shared += len(before.keys() & after.keys())
        judged = list(_verdicts_apart(before, after, one, other))
        flipped = [line for line, flip in judged if flip]
        flips += len(flipped)
        for line in (*_facts(a, b), *_configs(a, b), *differences(a, b)):
            console.print(Text(f"  {line}"), soft_wrap=True)
        for line, flip in judged:
            style = "bold red" if flip else ""
            console.print(Text(f"  {line}", style), soft_wrap=True)
    if not shared:
        console.print("No claim is judged by both sweeps.")
    elif not flips:
        console.print("Every claim that both sweeps judge has the same verdict.")
    return 1 if flips else 0


def _tables(outputs: Path, sweep: str) -> list[Table]:
    """Return the tables of a sweep: an outputs folder, EXPERIMENT or FOLDER/EXPERIMENT."""
    path = Path(sweep)
    if (path / "plans").is_dir():
        return collect(path)
    return collect(path.parent if path.parent != Path() else outputs, [path.name])


def _verdicts_apart(
    before: Mapping[str, Verdict], after: Mapping[str, Verdict], one: str, other: str
) -> Iterator[tuple[str, bool]]:
    """Yield a line for each claim whose verdict or terms differ between two sweeps.

    With each line, yield whether the verdict differs. `one` and `other` name the sweeps in these
    lines.
    """
    for claim in sorted(before.keys() ^ after.keys()):
        word = one if claim in before else other
        yield f"{sanitize(claim)}: only {sanitize(word)} judges it", False

    for claim, was in before.items():
        now = after.get(claim, was)
        why = _terms_apart(was, now)
        if now.verdict is was.verdict:
            if why:
                yield f"{sanitize(claim)}: {'; '.join(why)}", False
            continue
        words = f"FLIPPED {sanitize(claim)}: {was.verdict} -> {now.verdict}"
        yield f"{words} ({'; '.join(why)})" if why else words, True


def _verdicts(table: Table) -> dict[str, Verdict]:
    """Return the verdicts of a table by the name of their claim and the metric that judged it."""
    return {
        ", ".join(filter(None, [verdict.claim, verdict.measure])): verdict
        for verdict in verdicts_on(table)
    }


def _terms_apart(was: Verdict, now: Verdict) -> list[str]:
    """Return a text such as "margin 1 % -> 2 %" for each term in which two verdicts differ."""
    # A verdict has no numbers if the points cannot decide its claim.
    if not (was.numbers and now.numbers):
        return []
    before, after = _terms(was.numbers), _terms(now.numbers)
    pairs = [(key, before[key], after[key]) for key in before]
    return [f"{key} {old} -> {new}" for key, old, new in pairs if old != new]


def _terms(numbers: Data) -> dict[str, str]:
    """Return the terms of a verdict, such as its margin and confidence, as text by name."""
    return {
        "margin": (numbers["margin"] or {}).get("size", "none"),
        "error": f"{numbers['error']:g}",
        "claims": f"{numbers['claims']}",
        "confidence": f"{100 * numbers['confidence']:.4g} %",
        "spread pooled over": "{values} values of {points} points".format(
            **numbers["pooled"]
        ),
    }


def _facts(one: Table, other: Table) -> Iterator[str]:
    """Yield a line for each of the columns code, torch and device that differs."""
    for column in ("code", "torch", "device"):
        before, after = (
            sorted({str(row[column]) for row in table.rows if row.get(column)})
            for table in (one, other)
        )
        if before == after:
            continue
        yield f"{column}: {', '.join(before) or 'none'} -> {', '.join(after) or 'none'}"


def _configs(one: Table, other: Table) -> Iterator[str]:
    """Compare the configs of points that both tables have. Yield a line for each changed key."""
    first, second = (
        {
            (row["arm"], row["point"], row.get("task")): identity(
                table.files[row["run"]].config
            )
            for row in table.rows
        }
        for table in (one, other)
    )
    apart: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for place in [place for place in first if place in second]:
        before, after = first[place], second[place]
        for key in (before.keys() | after.keys()) - {"seed", "parent"}:
            old, new = before.get(key), after.get(key)
            if old != new and can_change_results(key):
                apart[key].append((_word(old), _word(new)))

    for key, pairs in sorted(apart.items()):
        old, new = (sorted(set(side)) for side in zip(*pairs, strict=True))
        points = plural(len(pairs), "point")
        yield f"{sanitize(key)}: {', '.join(old)} -> {', '.join(new)} ({points})"


def _word(value: Any) -> str:
    return sanitize("none" if value is None else plain(value))


def differences(one: Table, other: Table) -> Iterator[str]:
    """Yield lines on changed and missing values, for each metric that judges both tables.

    Then yield a line for each metric that judges only one of them.
    """
    own, others = measures_of_arms(one), measures_of_arms(other)
    for measure in own:
        if measure not in others:
            continue
        first, second = (
            {(point.arm, point.name): point for point in measure.points(table)}
            for table in (one, other)
        )
        pairs = [(first[name], second[name]) for name in first if name in second]
        equal, lines = list[bool](), list[str]()
        for before, after in pairs:
            seeds = before.values.keys() & after.values.keys()
            same = [before.values[seed] == after.values[seed] for seed in seeds]
            equal += same
            if before.values and after.values and not (same and all(same)):
                lines.append(_means(before, after))

        lines += _missing("first", first, second) + _missing("second", second, first)
        shared = f"{sum(equal)} of {len(equal)} values with the same seed are equal"
        head = f"{measure.words}: {plural(len(pairs), 'point')} in both; {shared}"
        closing = "; differences:" if lines else ": nothing differs."
        yield f"{head} to the last digit{closing if equal or lines else '.'}"
        for line in lines:
            yield f"  {line}"

    for word, some, rest in (("first", own, others), ("second", others, own)):
        for measure in some:
            if measure not in rest:
                yield f"{measure.words}: only the {word} is judged by this metric."


def _means(before: Point, after: Point) -> str:
    """Return a line with the means of a point in two tables, and their difference in per cent."""
    old, new = before.mean, after.mean
    change = f" ({new / old - 1:+.2%})" if old > 0 else ""
    name = sanitize(f"{after.arm} {after.name}".strip())
    return f"{name}: mean {old:.6g} -> {new:.6g}{change}"


def _missing(
    word: str, own: Mapping[Name, Point], others: Mapping[Name, Point]
) -> list[str]:
    """Return a line with the number of values that only the other table has; [] if there are none.

    Args:
        word: "first" or "second", the name of this table in the line.
        own: the points of this table.
        others: the points of the other table.
    """
    lacking = 0
    for name, other in others.items():
        known = own[name].values if name in own else {}
        lacking += len(other.values.keys() - known.keys())
    return [f"missing in the {word}: {plural(lacking, 'value')}."] if lacking else []
