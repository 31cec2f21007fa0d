"""Check the choice of learning rates: `python -m benchmarks.rates`.

The kept results were tuned at every point, with three seeds of the two best rates. Their trials
hold all that the rule of sweeper/tune.py asks for. So the rule is replayed on them: which rates it
chooses, what its trials cost, and which verdicts change. The tables go into docs/tuning.md.

With --train, Figure 1 is tuned at demo scale, with seeds that no kept run has, and every point is
trained at every rate. A rejected rate next to the chosen one should not be better by more than the
margin. This takes ten minutes on two cores.
"""

# ruff: noqa: E402  (--help is answered before numpy is imported)

import argparse
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.measure import ROOT, call, fill, measured_on, table


def options() -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--train", type=Path, metavar="OUTPUTS", help="a folder to train in"
    )
    return parser.parse_args()


if __name__ == "__main__":
    options()

import yaml

from sweeper.plan.experiment import Arm, Tune, read_experiment
from sweeper.plan.plan import Chosen, Configuration
from sweeper.results.choices import choices
from sweeper.results.collect import collect
from sweeper.results.judge import verdicts_on
from sweeper.results.points import RATE, Point, points
from sweeper.results.table import Row, Table, read_rows, read_table
from sweeper.store.files import canonical
from sweeper.tune import Search, setting, tried, with_choices

DOCUMENT = ROOT / "docs" / "tuning.md"
RESULTS = ROOT / "docs" / "results"
MARGIN = 0.01
JUDGED = "10,11,12,13,14,15"  # seeds that no kept run has, as those of trials
TRIALS = ((2000, 2001, 2002), (2003, 2004, 2005), (2006, 2007, 2008))
FIRST = {"cpu": [0.005, 0.01, 0.02], "demo": [0.02, 0.04, 0.08]}  # before ranges grew

Rates = Mapping[str, Sequence[float]]
"""The chosen rate of each point, and then those that trials cannot tell from it."""


@dataclass(frozen=True)
class Kept:
    """A kept experiment that was tuned.

    Attributes:
        judged: the table of its judged runs.
        trials: the table of all its trials.
        points: its points, without rates.
        search: the search before any trial.
    """

    judged: Table
    trials: Table
    points: list[Configuration]
    search: Search


@dataclass(frozen=True)
class Replay:
    """The rule of today on a kept experiment.

    Attributes:
        trials: the rows of the trials that it asks for.
        apart: the arms in which it tries every point.
        before, now: the rates of each point as kept, and as chosen from these trials.
        missing: the points and rates that no kept run was judged with.
        changed: the claims whose verdict differs, and the number of claims.
    """

    trials: Sequence[Row]
    apart: Sequence[str]
    before: Rates
    now: Rates
    missing: Sequence[str]
    changed: Sequence[str]
    claims: int


def kept() -> Iterator[Kept]:
    """Yield every kept experiment that was tuned."""
    for path in sorted(RESULTS.glob("*/*_trials.csv")):
        judged = judged_table(path.with_name(path.name.replace("_trials", "")))
        tune, (columns, rows) = judged.experiment["tune"], read_rows(path)
        about = {**judged.experiment, "metric": tune["by"]}
        settings = settings_of(rows, columns)
        trials = Table(path.stem, about, {}, settings, columns, rows)
        first = Tune(
            {RATE: FIRST[path.parent.name]}, tune["by"], tune["seeds"], tune["grow"]
        )
        found = {}
        for row in rows:
            one = Configuration(
                Arm(str(row["arm"]), ""),
                without_rate(settings[row["point"]]),
                config={"optimizer": {"learning_rate": None}},
                size={"params_total": row["params_total"]},
            )
            found[setting(one)] = one
        yield Kept(judged, trials, [*found.values()], Search.of(first))


def judged_table(path: Path) -> Table:
    """Return a kept table; those at demo scale have no description beside them."""
    if path.with_suffix(".json").exists():
        return read_table(path)
    columns, rows = read_rows(path)
    text = (ROOT / "conf" / "experiment" / "fig1.yaml").read_text("utf-8")
    data = {**yaml.safe_load(text)["experiment"], "tuned": True}
    about = read_experiment(path.stem, data, scale=path.parent.name).described()
    return Table(path.stem, about, {}, settings_of(rows, columns), columns, rows)


def settings_of(
    rows: Iterable[Row], columns: Sequence[str]
) -> dict[Any, dict[str, Any]]:
    """Return the config keys and values that the words of each point name."""
    keys = {column.rpartition(".")[2]: column for column in columns if "." in column}
    return {
        row["point"]: {
            (key := keys[word.partition("=")[0]]): row[key]
            for word in str(row["point"] or "").split()
        }
        for row in rows
    }


def without_rate(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings without the learning rate."""
    return {key: value for key, value in values.items() if key != RATE}


def replayed(one: Kept) -> Replay:
    """Return the rule of today on a kept experiment."""
    search = one.search
    while (following := search.following(asked_for(one, search))) != search:
        search = following
    trials = asked_for(one, search)
    now = chosen_rates(one, trials)
    judged, missing = with_rates(one.judged, now)
    verdicts = [*zip(verdicts_on(one.judged), verdicts_on(judged), strict=True)]
    changed = [
        f"{old.claim}: {old.verdict}, now {new.verdict}"
        for old, new in verdicts
        if old.verdict != new.verdict
    ]
    return Replay(
        trials.rows,
        sorted(search.apart),
        judged_rates(one.judged),
        now,
        missing,
        changed,
        len(verdicts),
    )


def asked_for(one: Kept, search: Search) -> Table:
    """Return the table of the trials that a search asks for."""
    places = {setting(point) for point in tried(one.points, search.apart)}
    rows = []
    for row in one.trials.rows:
        values = one.trials.settings[row["point"]]
        seeds = search.seeds.get(canonical([row["arm"], values]), 1)
        place = canonical([row["arm"], without_rate(values)])
        known = place in places and values[RATE] in search.tune.grid[RATE]
        if known and row["seed"] in search.tune.seeds[:seeds]:
            rows.append(row)
    about = {**one.trials.experiment, "tune": {"grid": search.tune.grid}}
    return replace(one.trials, rows=rows, experiment=about)


def chosen_rates(one: Kept, trials: Table) -> Rates:
    """Return the rates that these trials choose for every point."""
    chosen = {
        canonical([own.arm, own.setting]): [
            Chosen(values, own.trials)
            for values in (own.values, own.alternative)
            if values
        ]
        for own in choices(trials)
    }
    found: dict[str, list[float]] = {}
    for point in with_choices(one.points, chosen):
        place = replace(point, values=point.alternative_to or point.values)
        assert point.chosen
        found.setdefault(setting(place), []).append(point.chosen.values[RATE])
    return found


def judged_rates(table: Table) -> Rates:
    """Return the rates that every point was judged with."""
    return {
        place_of(point): [
            float(one.cells[RATE]) for one in (point, *point.alternatives)
        ]
        for point in points(table, table.metric)
    }


def place_of(point: Point) -> str:
    """Return the arm and the setting of a point as text, without its rate."""
    return canonical([point.arm, without_rate(point.settings)])


def with_rates(table: Table, rates: Rates) -> tuple[Table, list[str]]:
    """Return a judged table with other rates, and the rates that it has no runs of.

    A point without runs of its chosen rate keeps those that it has.
    """
    rows, missing = [], []
    for point in points(table, table.metric):
        judged = {one.cells[RATE]: one.name for one in (point, *point.alternatives)}
        for rate in (wanted := rates[place_of(point)]):
            if rate not in judged:
                missing.append(f"{point.arm} {point.name} {rate:g}")
                if rate != wanted[0]:
                    continue
            words, of = point.name, None
            if rate != wanted[0]:
                words, of = (
                    f"{words} learning_rate={rate:g}".strip(),
                    f"{point.arm} {words}".strip(),
                )
            rows += [
                {**row, "point": words, "alternative_to": of}
                for row in table.rows
                if row["arm"] == point.arm
                and (row["point"] or "") == judged.get(rate, point.name)
            ]
    return replace(table, rows=rows), missing


def prices(kinds: Sequence[Mapping[str, Row]]) -> list[str]:
    """Return the runs and the device hours of each kind of runs."""
    hours = [sum(row["seconds"] for row in one.values()) / 3600 for one in kinds]
    return [*(str(len(one)) for one in kinds), *(f"{one:.2g}" for one in hours)]


def done(rows: Iterable[Row], text: str) -> dict[str, Row]:
    """Return a row of each run that is done; experiments on one text share runs."""
    return {f"{text} {row['run']}": row for row in rows if row["state"] == "done"}


def replay() -> str:
    """Return the replay as a table, and what is chosen differently."""
    lines, apart, differ, missing, changed = [], [], [], [], []
    every: list[dict[str, Row]] = [{}, {}, {}]
    claims = twice_before = twice_now = 0
    for one in kept():
        own = replayed(one)
        experiment, _, text = one.judged.name.replace("-local-cpu", "").partition("-")
        name = f"{experiment} {text}".strip()
        kinds = [
            done(rows, text[:6])
            for rows in (one.trials.rows, own.trials, one.judged.rows)
        ]
        for known, more in zip(every, kinds, strict=True):
            known |= more
        lines.append([name, *prices(kinds)])
        claims += own.claims
        apart += [f"{name}, {arm}" for arm in own.apart]
        missing += [f"{name}, {point}" for point in own.missing]
        changed += [f"{name}, {words}" for words in own.changed]
        for place, before in own.before.items():
            now = own.now[place]
            twice_before, twice_now = (
                twice_before + len(before) - 1,
                twice_now + len(now) - 1,
            )
            if before[0] != now[0]:
                differ.append(f"{name}, {place}: {before[0]:g}, now {now[0]:g}")
    lines.append(["all, each run once", *prices(every)])
    head = (
        "kept result",
        "trials",
        "by this rule",
        "judged runs",
        "hours",
        "by this rule",
        "judged",
    )
    return "\n".join(
        [
            table(head, lines),
            "",
            f"- Every point is tried in: {'; '.join(apart)}.",
            f"- Chosen differently: {'; '.join(differ) or 'no rate'}.",
            f"- Judged with a second rate: {twice_now} points; as kept {twice_before}.",
            f"- Verdicts that change: {'; '.join(changed) or 'none'}, of {claims}.",
            f"- Not judged, as no kept run has the rate: {'; '.join(missing)}.",
        ]
    )


def trained(outputs: Path) -> str:
    """Tune Figure 1 at demo scale with new seeds; return how often a rejected rate is better."""
    common = (
        "experiment=fig1",
        "experiment.claims=[]",
        f"seed={JUDGED}",
        "logger=none",
    )
    to = f"paths.outputs={outputs}"
    names = [f"tuned_{seeds[0]}" for seeds in TRIALS]
    for name, seeds in zip(names, TRIALS, strict=True):
        tune = f"experiment.tune.seeds=[{','.join(map(str, seeds))}]"
        call(
            "sweep.py", "-m", *common, "experiment.tuned=true", tune, f"name={name}", to
        )
    tables = collect(outputs, names)
    tried = {rate for one in tables for rate in one.experiment["tune"]["grid"][RATE]}
    grid = f"{RATE}={','.join(f'{rate:g}' for rate in sorted(tried))}"
    call("sweep.py", "-m", *common, grid, "name=every_rate", to)
    [every] = collect(outputs, ["every_rate"])

    loss: dict[str, dict[float, float]] = {}
    for point in points(every, every.metric):
        logs = [math.log(value) for value in point.values.values()]
        loss.setdefault(place_of(point), {})[point.cells[RATE]] = mean(logs)
    gains, twice, choices = [], 0, 0
    for one in tables:
        for place, (chosen, *others) in judged_rates(one).items():
            known = sorted(loss[place])
            at = known.index(chosen)
            near = {*known[max(at - 1, 0) : at + 2]} - {chosen, *others}
            gains += [loss[place][chosen] - loss[place][rate] for rate in near]
            twice, choices = twice + len(others), choices + 1
    better = sum(gain > math.log1p(MARGIN) for gain in gains)
    words = f"more than {MARGIN:.0%} in {better} of {len(gains)} pairs, {better / len(gains):.1%}"
    return (
        f"{measured_on()}. Trials of Figure 1 at demo scale, {len(tables)} times with other seeds.\n\n"
        f"- A rejected rate next to the chosen one is better by {words}; by "
        f"{math.expm1(max(gains)):.1%} at most.\n"
        f"- {twice} of {choices} points are judged with a second rate."
    )


def main() -> None:
    """Write the tables into the document."""
    given = options()
    if given.train:
        fill(DOCUMENT, "benchmarks.rates --train", trained(given.train.resolve()))
    else:
        fill(DOCUMENT, "benchmarks.rates", replay())


if __name__ == "__main__":
    main()
