"""Check the rule that chooses learning rates: `python -m benchmarks.rates`.

The rule in sweeper/stages/tune.py chooses the learning rate of each point from training runs called
trials. The experiments in docs/results were tuned with more trials than the rule needs. This
benchmark applies the rule to these trials. It writes to docs/tuning.md which rates the rule
chooses, what its trials cost, and which verdicts change.

With --train, it tunes Figure 1 at demo scale with new seeds, and trains every point at every rate.
It then counts the rejected rates, next to the chosen one, that are better by more than MARGIN.
"""

# ruff: noqa: E402  (so that --help is answered before numpy is imported)

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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--train",
        type=Path,
        metavar="OUTPUTS",
        help="train runs in this outputs folder",
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
from sweeper.stages.tune import Search, setting, tried, with_choices
from sweeper.store.files import canonical

DOCUMENT = ROOT / "docs" / "tuning.md"
RESULTS = ROOT / "docs" / "results"
# The learning rates of the first trials, by scale.
FIRST = {"cpu": [0.005, 0.01, 0.02], "demo": [0.02, 0.04, 0.08]}
MARGIN = 0.01
# New seeds for --train: for the judged runs, and for three repetitions of the trials.
JUDGED = "10,11,12,13,14,15"
TRIALS = ((2000, 2001, 2002), (2003, 2004, 2005), (2006, 2007, 2008))

Rates = Mapping[str, Sequence[float]]
"""The learning rates of each point, keyed by `place_of`.

The first is the chosen rate. If the trials cannot tell which of two rates is better, the other one
follows.
"""


@dataclass(frozen=True)
class Kept:
    """A tuned experiment of docs/results.

    Attributes:
        name: the name of the experiment and of its text, such as "fig1 on novels".
        judged: the table of the judged runs.
        trials: the table of all trials.
        points: the points that were tuned, without their learning rates.
        search: the state of the search for the best rates, before any trial.
    """

    name: str
    judged: Table
    trials: Table
    points: Sequence[Configuration]
    search: Search


def kept() -> Iterator[Kept]:
    """Yield each experiment of docs/results whose rates were chosen with trials of all points."""
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
            arm, values = Arm(str(row["arm"]), ""), without_rate(settings[row["point"]])
            size = {"params_total": row["params_total"]}
            config = {"optimizer": {"learning_rate": None}}
            point = Configuration(arm, values, config, size)
            found[setting(point)] = point
        every = {place_of(point) for point in points(judged, judged.metric)}
        if not every <= found.keys():
            continue  # the present rule chose these rates, with trials of fewer points
        name = judged.name.replace("-local-cpu-", " on ")
        yield Kept(name, judged, trials, [*found.values()], Search.of(first))


def judged_table(path: Path) -> Table:
    """Return the table in a csv file, with the description of its experiment.

    The description is in the json file of the same name. At demo scale there is no such file, so
    read the description from conf/experiment/fig1.yaml.
    """
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
    """Return the config keys and values of each point, by the name of the point."""
    keys = {column.rpartition(".")[2]: column for column in columns if "." in column}
    found = {}
    for row in rows:
        words = str(row["point"] or "").split()
        named = [keys[word.partition("=")[0]] for word in words]
        found[row["point"]] = {key: row[key] for key in named}
    return found


def without_rate(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return `values`, a mapping from config keys to values, without the learning rate."""
    return {key: value for key, value in values.items() if key != RATE}


def place_of(point: Point) -> str:
    """Return a key for a point: its arm and its values, without the learning rate, as JSON."""
    return canonical([point.arm, without_rate(point.settings)])


def replayed(one: Kept) -> tuple[Search, Table]:
    """Repeat the search with the recorded trials. Return its final state and the trials it used."""
    search = one.search
    while (following := search.following(trials := asked_for(one, search))) != search:
        search = following
    return search, trials


def asked_for(one: Kept, search: Search) -> Table:
    """Return the recorded trials that a search asks for in its present state."""
    places = {setting(point) for point in tried(one.points, search.exhaustive)}
    rows = []
    for row in one.trials.rows:
        values = one.trials.settings[row["point"]]
        seeds = search.seeds.get(canonical([row["arm"], values]), 1)
        place = canonical([row["arm"], without_rate(values)])
        in_range = place in places and values[RATE] in search.tune.grid[RATE]
        if in_range and row["seed"] in search.tune.seeds[:seeds]:
            rows.append(row)
    about = {**one.trials.experiment, "tune": {"grid": search.tune.grid}}
    return replace(one.trials, rows=rows, experiment=about)


def chosen_rates(one: Kept, trials: Table) -> Rates:
    """Return the learning rates that the rule chooses from these trials."""
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
        place = setting(replace(point, values=point.alternative_to or point.values))
        assert point.chosen
        found.setdefault(place, []).append(point.chosen.values[RATE])
    return found


def judged_rates(table: Table) -> Rates:
    """Return the learning rates of the judged runs of each point."""
    return {
        place_of(point): [one.cells[RATE] for one in (point, *point.alternatives)]
        for point in points(table, table.metric)
    }


def with_rates(table: Table, rates: Rates) -> tuple[Table, list[str]]:
    """Keep only the judged runs with these learning rates.

    If a point has no runs with its chosen rate, keep its runs with the earlier rate.

    Returns:
        The table of the kept runs, and the rates without runs, each as "arm point rate".
    """
    rows, missing = [], []
    for point in points(table, table.metric):
        first, *others = rates[place_of(point)]
        judged = {one.cells[RATE]: one.name for one in (point, *point.alternatives)}
        name = f"{point.arm} {point.name}".strip()
        missing += [
            f"{name} {rate:g}" for rate in (first, *others) if rate not in judged
        ]
        wanted: dict[str, tuple[str, str | None]] = {
            judged.get(first, point.name): (point.name, None)
        }
        for other in {*others} & judged.keys():
            wanted[judged[other]] = (
                f"{point.name} learning_rate={other:g}".strip(),
                name,
            )
        for row in table.rows:
            if row["arm"] == point.arm and (own := row["point"] or "") in wanted:
                words, of = wanted[own]
                rows.append({**row, "point": words, "alternative_to": of})
    return replace(table, rows=rows), missing


def replay() -> str:
    """Apply the rule to the trials in docs/results, and return a report.

    The report has the cost of the trials that the rule needs, and the rates and verdicts that
    change.
    """
    runs: dict[str, list[dict[str, float]]] = {}
    apart, differ, missing, changed = [], [], [], []
    claims, twice = 0, [0, 0]
    for one in kept():
        search, trials = replayed(one)
        now = chosen_rates(one, trials)
        judged, absent = with_rates(one.judged, now)
        of_text = runs.setdefault(
            one.name.partition(" on ")[2].partition("-")[0], [{}, {}, {}]
        )
        for kind, rows in zip(
            of_text, (one.trials.rows, trials.rows, one.judged.rows), strict=True
        ):
            kind |= {
                str(row["run"]): row["seconds"]
                for row in rows
                if row["state"] == "done"
            }
        apart += [f"{one.name}, {arm}" for arm in search.exhaustive]
        missing += [f"{one.name}, {point}" for point in absent]
        for point in points(one.judged, one.judged.metric):
            kept_rate, (rate, *others) = point.cells[RATE], now[place_of(point)]
            twice = [twice[0] + len(point.alternatives), twice[1] + len(others)]
            if rate != kept_rate:
                differ.append(
                    f"{one.name}, {point.arm} {point.name}: {kept_rate:g}, now {rate:g}"
                )
        for old, new in zip(verdicts_on(one.judged), verdicts_on(judged), strict=True):
            claims += 1
            if old.verdict != new.verdict:
                changed.append(
                    f"{one.name}, {old.claim}: {old.verdict}, now {new.verdict}"
                )
    together = [
        {run: seconds for own in runs.values() for run, seconds in own[kind].items()}
        for kind in range(3)
    ]
    lines = [
        [
            text or "demo",
            f"{len(judged)}",
            *prices(before, judged),
            *prices(now, judged),
        ]
        for text, (before, now, judged) in {**runs, "all": together}.items()
    ]
    head = [
        "text",
        "judged runs",
        "trials of every point",
        "hours",
        "by this rule",
        "hours",
    ]
    return "\n".join(
        [
            table(head, lines),
            "",
            f"- Verdicts that change: {'; '.join(changed) or 'none'}, of {claims}.",
            f"- Chosen differently: {'; '.join(differ) or 'no rate'}.",
            f"- Judged with a second rate: {twice[1]} points, as kept {twice[0]}. No kept run has "
            f"the rate at {len(missing)} of them: {'; '.join(missing)}.",
            f"- Every point is tried in: {'; '.join(apart)}.",
        ]
    )


def prices(trials: Mapping[str, float], judged: Mapping[str, float]) -> list[str]:
    """Return the number of trials and their device hours, each with its ratio to the judged runs.

    Args:
        trials: the seconds of each trial.
        judged: the seconds of each judged run.
    """
    took, judged_took = (sum(runs.values()) / 3600 for runs in (trials, judged))
    share = f"{len(trials) / len(judged):.0%}"
    return [f"{len(trials)}, {share}", f"{took:.2g}, {took / judged_took:.0%}"]


def trained(outputs: Path) -> str:
    """Tune Figure 1 at demo scale with new seeds, and train every point at every rate.

    Return a report of how often a rejected rate next to the chosen one is better.
    """

    def sweep(name: str, *arguments: str) -> None:
        common = (
            f"name={name}",
            f"seed={JUDGED}",
            "experiment.claims=[]",
            "logger=none",
        )
        call(
            "sweep.py",
            "-m",
            "experiment=fig1",
            *common,
            *arguments,
            f"paths.outputs={outputs}",
        )

    names = [f"tuned_{seeds[0]}" for seeds in TRIALS]
    for name, seeds in zip(names, TRIALS, strict=True):
        tune = f"experiment.tune.seeds=[{','.join(map(str, seeds))}]"
        sweep(name, "experiment.tuned=true", tune)
    tuned = collect(outputs, names)
    tried = {rate for one in tuned for rate in one.experiment["tune"]["grid"][RATE]}
    sweep("every_rate", f"{RATE}={','.join(f'{rate:g}' for rate in sorted(tried))}")
    [every] = collect(outputs, ["every_rate"])

    losses: dict[str, dict[float, float]] = {}
    for point in points(every, every.metric):
        logs = [math.log(value) for value in point.values.values()]
        losses.setdefault(place_of(point), {})[point.cells[RATE]] = mean(logs)
    gains, second, count = [], 0, 0
    for one in tuned:
        for place, (chosen, *others) in judged_rates(one).items():
            rates = sorted(losses[place])
            at = rates.index(chosen)
            near = {*rates[max(at - 1, 0) : at + 2]} - {chosen, *others}
            gains += [losses[place][chosen] - losses[place][rate] for rate in near]
            second, count = second + len(others), count + 1
    better = sum(gain > math.log1p(MARGIN) for gain in gains)
    return (
        f"{measured_on()}.\n\n"
        f"- A rejected rate next to the chosen one is better by more than {MARGIN:.0%} in {better} "
        f"of {len(gains)} pairs ({better / len(gains):.1%}); by {math.expm1(max(gains)):.1%} at "
        f"most.\n- {second} of {count} points are judged with a second rate."
    )


def main() -> None:
    """Write the results to the document."""
    outputs = options().train
    if outputs:
        fill(DOCUMENT, "benchmarks.rates --train", trained(outputs.resolve()))
    else:
        fill(DOCUMENT, "benchmarks.rates", replay())


if __name__ == "__main__":
    main()
