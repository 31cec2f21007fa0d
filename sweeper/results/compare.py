"""Compare the code, configs, values and verdicts of two sweeps."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.text import Text

from sweeper.results.collect import collect, plain
from sweeper.results.judge import verdicts_on
from sweeper.results.points import Measure, measures_of_arms
from sweeper.results.table import Table
from sweeper.store.errors import UserError, sanitize
from sweeper.store.numbers import plural

_FLIPPED = "FLIPPED "  # the start of a line on a claim whose verdict changed
Texts = Mapping[str, str]
"""Facts as text, by name, for example {"model.heads": "8"}."""
Values = Mapping[tuple[str, int], float]
"""The values of a metric, by point and seed."""


def compare(console: Console, outputs: Path, one: str, other: str) -> int:
    """Print the changes from one sweep to the other. Return 1 if a verdict changed, else 0.

    Args:
        console: the terminal.
        outputs: the outputs folder of sweeps that are given without a folder.
        one, other: the sweeps. Each is an outputs folder, the name of an experiment in `outputs`,
            or FOLDER/EXPERIMENT.

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

    flips = 0
    for a, b in pairs:
        heading = f"{a.name}: {other} against {one}"
        console.print(Text(sanitize(heading), "bold"))
        lines = [
            *_changes(_versions(a), _versions(b)),
            *_configs_apart(a, b),
            *differences(a, b),
            *_verdicts_apart(a, b),
        ]
        for line in lines:
            style = ""
            if line.startswith(_FLIPPED):
                flips += 1
                style = "bold red"
            console.print(Text(f"  {sanitize(line, 2000)}", style), soft_wrap=True)
    if not flips:
        console.print("No verdict changed on the claims that both sweeps judge.")
    return 1 if flips else 0


def _tables(outputs: Path, sweep: str) -> list[Table]:
    """Return the tables of a sweep, given as an outputs folder, EXPERIMENT or FOLDER/EXPERIMENT."""
    path = Path(sweep)
    if (path / "plans").is_dir():
        return collect(path)
    return collect(path.parent if path.parent != Path() else outputs, [path.name])


def _changes(before: Texts, after: Texts) -> list[str]:
    """Return a line such as "margin: 1 % -> 2 %" for each fact that differs."""
    return [
        f"{name}: {before.get(name, 'none')} -> {after.get(name, 'none')}"
        for name in dict.fromkeys([*before, *after])
        if before.get(name, "none") != after.get(name, "none")
    ]


def _versions(table: Table) -> Texts:
    """Return what trained the runs, as text.

    For example, {"code": "1.2.0", "torch": "2.7.1, 2.8.0", "device": "cpu"}. Columns without a
    value are left out.
    """
    found = {}
    for column in ("code", "torch", "device"):
        if values := {str(row[column]) for row in table.rows if row.get(column)}:
            found[column] = ", ".join(sorted(values))
    return found


def _verdicts_apart(one: Table, other: Table) -> Iterator[str]:
    """Yield a line for each claim whose verdict or terms changed, or that only one table has.

    The terms are the conditions of a verdict, such as the margin.
    """
    before, after = _terms_by_claim(one), _terms_by_claim(other)
    for claim in dict.fromkeys([*before, *after]):
        if claim not in after:
            yield f"{claim}: only the first sweep judges it"
        elif claim not in before:
            yield f"{claim}: only the second sweep judges it"
        else:
            yield from _verdict_apart(claim, before[claim], after[claim])


def _verdict_apart(claim: str, was: Texts, now: Texts) -> Iterator[str]:
    """Yield a line if the verdict on a claim or its terms changed."""
    # A verdict has no terms if the points of its sweep cannot decide the claim. So if one of the
    # two verdicts has none, do not compare the terms.
    if "error" not in was or "error" not in now:
        was, now = ({"verdict": one["verdict"]} for one in (was, now))
    if changes := "; ".join(_changes(was, now)):
        flipped = was["verdict"] != now["verdict"]
        yield f"{_FLIPPED if flipped else ''}{claim}: {changes}"


def _terms_by_claim(table: Table) -> Mapping[str, Texts]:
    """Return the verdict and its terms as text, keyed by "claim, metric"."""
    found = {}
    for verdict in verdicts_on(table):
        terms = {"verdict": str(verdict.verdict)}
        if numbers := verdict.numbers:
            pooled = numbers["pooled"]
            terms |= {
                "margin": (numbers["margin"] or {}).get("size", "none"),
                "error": f"{numbers['error']:g}",
                "claims": f"{numbers['claims']}",
                "confidence": f"{100 * numbers['confidence']:.4g} %",
                "spread": f"pooled over {pooled['values']} values of {pooled['points']} points",
            }
        found[f"{verdict.claim}, {verdict.measure}"] = terms
    return found


def _configs_apart(one: Table, other: Table) -> Iterator[str]:
    """Yield a line for each change of a config key, such as "model.layers: 2 -> 4 (3 points)"."""
    first, second = _configs(one), _configs(other)
    shared = [point for point in first if point in second]
    changes = Counter(
        change for point in shared for change in _changes(first[point], second[point])
    )
    for change, count in sorted(changes.items()):
        yield f"{change} ({plural(count, 'point')})"


def _configs(table: Table) -> Mapping[Any, Texts]:
    """Return, for each point, the config values that can change results. Values are text."""
    found = {}
    for row in table.rows:
        settings = table.files[row["run"]].settings
        point = row["arm"], row["point"], row.get("task")
        found[point] = {
            key: "none" if value is None else str(plain(value))
            for key, value in settings.items()
        }
    return found


def differences(one: Table, other: Table) -> Iterator[str]:
    """Yield lines on changed and missing values, for each metric that judges both tables.

    Also yield a line for each metric that judges only one of the tables.
    """
    own, others = measures_of_arms(one), measures_of_arms(other)
    for measure in dict.fromkeys([*own, *others]):
        if measure not in others:
            yield f"{measure.words}: only the first sweep is judged by this metric."
        elif measure not in own:
            yield f"{measure.words}: only the second sweep is judged by this metric."
        else:
            lines = [*_values_apart(_by_seed(measure, one), _by_seed(measure, other))]
            yield f"{measure.words}: {lines[0]}"
            yield from lines[1:]


def _values_apart(before: Values, after: Values) -> Iterator[str]:
    """Yield a summary of the values in two tables, then lines on the differences.

    There is a line for each point whose mean changed, and one for the values that a table lacks.
    """
    means, new_means = _means(before), _means(after)
    points = [point for point in means if point in new_means]
    changed = {point for (point, _), _ in before.items() ^ after.items()}
    equal = len(before.items() & after.items())
    shared = len(before.keys() & after.keys())
    closing = "differences:" if changed else "nothing differs."
    yield (
        f"{plural(len(points), 'point')} in both; {equal} of {shared} values with the same seed "
        f"are equal to the last digit: {closing}"
    )
    for point in points:
        if point in changed:
            old, new = means[point], new_means[point]
            change = f" ({new / old - 1:+.2%})" if old > 0 else ""
            yield f"  {point}: mean {old:.6g} -> {new:.6g}{change}"
    if lacking := after.keys() - before.keys():
        yield f"  missing in the first: {plural(len(lacking), 'value')}."
    if lacking := before.keys() - after.keys():
        yield f"  missing in the second: {plural(len(lacking), 'value')}."


def _by_seed(measure: Measure, table: Table) -> Values:
    """Return the values of a metric, keyed by point ("fixed heads=8") and seed."""
    return {
        (f"{point.arm} {point.name}".strip(), seed): value
        for point in measure.points(table)
        for seed, value in point.values.items()
    }


def _means(values: Values) -> dict[str, float]:
    """Return the mean over seeds of each point."""
    by_point: dict[str, list[float]] = defaultdict(list)
    for (point, _), value in values.items():
        by_point[point].append(value)
    return {point: fmean(own) for point, own in by_point.items()}
