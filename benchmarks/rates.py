"""Replay the choice of learning rates on kept trials: `python -m benchmarks.rates`.

The kept results were tuned at every point. Their trials hold all that the rule of sweeper/tune.py
needs, which begins at the ends of each arm. The replay compares rates, prices and verdicts. Its
table goes into docs/tuning.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.measure import ROOT, fill, table

if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()  # --help needs no numpy

from sweeper.plan.experiment import Arm, Tune, read_experiment
from sweeper.plan.plan import Chosen, Configuration
from sweeper.results.choices import Choice, choices
from sweeper.results.judge import verdicts_on
from sweeper.results.points import RATE
from sweeper.results.table import Row, Table, read_rows, read_table
from sweeper.results.verdict import Decision
from sweeper.store.files import canonical
from sweeper.store.plans import describe_values
from sweeper.tune import Search, setting, tried, with_choices

RESULTS = ROOT / "docs" / "results"
FIRST = {"cpu": [0.005, 0.01, 0.02], "demo": [0.02, 0.04, 0.08]}


@dataclass(frozen=True)
class Kept:
    """A kept experiment.

    Attributes:
        judged: the table of its judged runs.
        trials: the table of its trials.
        points: its points, without a rate.
        search: the search as it begins.
    """

    judged: Table
    trials: Table
    points: list[Configuration]
    search: Search


def kept() -> Iterator[Kept]:
    """Yield every kept experiment that was tuned."""
    for path in sorted(RESULTS.glob("*/*_trials.csv")):
        scale = path.parent.name
        judged = _judged(path.with_name(path.name.replace("_trials", "")))
        tune = judged.experiment["tune"]
        columns, rows = read_rows(path)
        about = {**judged.experiment, "metric": tune["by"], "claims": [], "tuning": []}
        settings = {row["point"]: _setting(row, columns) for row in rows}
        trials = Table(path.stem, about, {}, settings, columns, rows)
        first = Tune({RATE: FIRST[scale]}, tune["by"], tune["seeds"], tune["grow"])
        points = {}
        for row in rows:
            values = {k: v for k, v in settings[row["point"]].items() if k != RATE}
            size = {"params_total": row["params_total"]}
            arm, config = Arm(str(row["arm"]), ""), {"optimizer": {"learning_rate": None}}
            one = Configuration(arm, values, config, size)
            points[setting(one)] = one
        yield Kept(judged, trials, [*points.values()], Search.of(first))


def _judged(path: Path) -> Table:
    if path.with_suffix(".json").exists():
        return read_table(path)
    import yaml

    name = path.stem
    conf = ROOT / "conf" / "experiment" / "fig1.yaml"
    data = yaml.safe_load(conf.read_text("utf-8"))["experiment"]
    about = read_experiment(name, {**data, "tuned": True}, scale="demo").described()
    columns, rows = read_rows(path)
    settings = {str(row["point"]): _setting(row, columns) for row in rows}
    return Table(name, about, {}, settings, columns, rows)


def _setting(row: Row, columns: Sequence[str]) -> dict[str, Any]:
    """Return the settings that the words of a point name, by config key."""
    keys = [word.partition("=")[0] for word in str(row["point"] or "").split()]
    by_word = {column.rpartition(".")[2]: column for column in columns if "." in column}
    return {by_word[key]: row[by_word[key]] for key in keys}


def replayed(one: Kept) -> tuple[Search, Table]:
    """Return the search at its end, and its trials."""
    search = one.search
    while True:
        made = {setting(point) for point in tried(one.points, search.apart)}
        rows = []
        for row in one.trials.rows:
            values = dict(one.trials.settings[row["point"]])
            final = canonical([row["arm"], values]) in search.finalists
            rate = values.pop(RATE)
            known = canonical([row["arm"], values]) in made and rate in search.tune.grid[RATE]
            if known and (final or row["seed"] == search.tune.seeds[0]):
                rows.append(row)
        about = {**one.trials.experiment, "tune": {"grid": search.tune.grid}}
        found = replace(one.trials, rows=rows, experiment=about)
        following = search.following(found)
        if following == search:
            return search, found
        search = following


def rates_of(one: Kept, found: Sequence[Choice]) -> dict[str, list[float]]:
    """Return the chosen rate of every point, and then its alternatives."""
    chosen = {
        canonical([c.arm, c.setting]): [
            Chosen(values, c.trials) for values in (c.values, c.alternative) if values
        ]
        for c in found
    }
    rates: dict[str, list[float]] = {}
    for point in with_choices(one.points, chosen):
        of = point if point.alternative_to is None else replace(point, values=point.alternative_to)
        rates.setdefault(setting(of), []).append(point.chosen.values[RATE])
    return rates


def rejudged(one: Kept, rates: Mapping[str, Sequence[float]]) -> tuple[Table, list[str]]:
    """Return the judged table with these rates, and the points that were not judged with one."""
    rows, missing = [], []
    by_setting: dict[str, dict[float, list[Row]]] = {}
    for row in one.judged.rows:
        own = {k: v for k, v in one.judged.settings.get(row["point"] or "", {}).items() if k != RATE}
        where = by_setting.setdefault(canonical([row["arm"], own]), {})
        where.setdefault(row[RATE], []).append(row)
    for where, known in by_setting.items():
        chosen, *others = rates[where]
        [first, *_] = known
        if chosen not in known:
            missing.append(f"{where} {chosen:g}")
            chosen = first
        words = next(r["point"] for r in known[first] if not r.get("alternative_to"))
        rows += [{**row, "point": words, "alternative_to": None} for row in known[chosen]]
        for other in others:
            if other not in known:
                missing.append(f"{where} {other:g}")
            for row in known.get(other, ()):
                name = f"{row['arm']} {words or ''}".strip()
                own = f"{words or ''} learning_rate={other:g}".strip()
                rows.append({**row, "point": own, "alternative_to": name})
    return replace(one.judged, rows=rows), missing
