"""Check choices of learning rates on seeds that chose nothing: `python -m benchmarks.rates`.

Tunes and trains experiments, then trains every point at every rate that was tried, with the judged
seeds, which are none of the trials'. A rejected rate that is next to the chosen one and better by
more than the margin is a wrong choice. Three rules are compared on the same trials: the best of one
seed, the rate next to the minimum of a parabola in its logarithm, and the rule of the sweeper.
Results are in docs/tuning.md.
"""

# ruff: noqa: E402  (--help is answered before numpy is imported)

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory

from benchmarks.measure import ROOT, call, fill, measured_on, table


def options() -> argparse.Namespace:
    """Return what was typed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--outputs", type=Path, help="a folder to keep and continue")
    parser.add_argument(
        "arguments", nargs="*", help="NAME and overrides of one experiment, instead of demo scale"
    )
    return parser.parse_args()


if __name__ == "__main__":
    options()  # answers --help before numpy is imported

import numpy as np

from sweeper.results.collect import collect
from sweeper.results.compare import flipped
from sweeper.results.points import RATE, Point, points
from sweeper.results.table import Table
from sweeper.results.verdict import Decision
from sweeper.store.files import canonical

DEMO = ("fig1", "fig3", "equal_width", "bottleneck", "value_size")
TUNE = f"experiment.tune={{grid: {{{RATE}: [0.0125, 0.025, 0.05]}}, grow: 1}}"


@dataclass(frozen=True)
class Chosen:
    """A choice, with what every rate is worth on judged seeds.

    Attributes:
        losses: by rate, the mean of the judged metric's logarithm.
        first: by rate, the validation loss of the trial with the first seed.
        rates: the chosen one, and its alternative if there is one.
    """

    losses: Mapping[float, float]
    first: Mapping[float, float]
    rates: Sequence[float]

    def rejected(self) -> list[float]:
        """Return the rates next to the chosen one that are no alternative."""
        known = sorted(self.losses)
        place = known.index(self.rates[0])
        near = known[max(place - 1, 0) : place + 2]
        return [rate for rate in near if rate not in self.rates]

    def loss_of(self, rate: float) -> float:
        """Return by how much this rate is worse than the best."""
        return self.losses[rate] - min(self.losses.values())


def rule_of_one_seed(one: Chosen) -> float:
    """Return the rate with the least validation loss of one seed."""
    return min(one.first, key=one.first.__getitem__)


def rule_of_the_parabola(one: Chosen) -> float:
    """Return the rate nearest to the minimum of a parabola through the trials of one seed."""
    best = rule_of_one_seed(one)
    near = sorted(one.first, key=lambda rate: abs(math.log(rate / best)))[:3]
    square, linear, _ = np.polyfit(np.log(near), [one.first[rate] for rate in near], 2)
    if square <= 0:
        return best
    return min(one.first, key=lambda rate: abs(math.log(rate) + linear / (2 * square)))


RULES: dict[str, Callable[[Chosen], float]] = {
    "best of one seed": rule_of_one_seed,
    "parabola": rule_of_the_parabola,
    "two finalists, three seeds": lambda one: one.rates[0],  # as the sweeper chose
}


def choices_of(tuned: Table, trials: Table, every: Table) -> list[Chosen]:
    """Return the choices of a tuned experiment; `every` has each point at each rate."""

    def key(point: Point) -> str:
        kept = {name: value for name, value in point.settings.items() if name != RATE}
        return canonical([point.arm, kept])

    losses: dict[str, dict[float, float]] = {}
    for point in points(every, every.metric):
        logs = [math.log(value) for value in point.values.values()]
        losses.setdefault(key(point), {})[point.settings[RATE]] = mean(logs)
    first: dict[str, dict[float, float]] = {}
    for point in points(trials, trials.metric):
        first.setdefault(key(point), {})[point.settings[RATE]] = next(iter(point.values.values()))
    found = []
    for one in tuned.experiment["tuning"]:
        where = canonical([one["arm"], one["setting"]])
        rates = [values[RATE] for values in (one["values"], one["alternative"]) if values]
        found.append(Chosen(losses[where], first[where], rates))
    return found


def reversed_claims(tuned: Table) -> list[str]:
    """Return the claims that are decided the other way if one arm takes its alternatives."""
    replaced = {row.get("alternative_to") for row in tuned.rows}
    found = []
    for arm in tuned.experiment["arms"]:
        rows = []
        for row in tuned.rows:
            if row["arm"] != arm:
                rows.append(row)
            elif chosen := row.get("alternative_to"):
                point = chosen.removeprefix(arm).strip() or None
                rows.append({**row, "point": point, "alternative_to": None})
            elif f"{arm} {row['point'] or ''}".strip() not in replaced:
                rows.append(row)
        for before, after in flipped(tuned, replace(tuned, rows=rows)):
            if {before.verdict, after.verdict} == {Decision.SUPPORTED, Decision.NOT_SUPPORTED}:
                found.append(f"{after.claim} ({arm})")
    return found


def measured(outputs: Path, name: str, arguments: Sequence[str]) -> tuple[list[Chosen], list[str]]:
    """Tune and train one experiment; return its choices and the claims that another rate flips."""
    to = (f"name={name}", "logger=none", f"paths.outputs={outputs}")
    call("sweep.py", "-m", f"experiment={name}", *arguments, *to)
    tuned, trials = collect(outputs, [name, f"{name}_trials"])
    rates = ",".join(f"{rate:g}" for rate in tuned.experiment["tune"]["grid"][RATE])
    own = [*(one for one in arguments if "experiment.tune" not in one), "experiment.claims=[]"]
    to = (f"name={name}_rates", *to[1:])
    call("sweep.py", "-m", f"experiment={name}", *own, f"{RATE}={rates}", *to)
    [every] = collect(outputs, [f"{name}_rates"])
    return choices_of(tuned, trials, every), reversed_claims(tuned)


def main() -> None:
    """Print the table; write it into docs/tuning.md for the experiments at demo scale."""
    given = options()
    name, *own = given.arguments or [""]
    tunes = {one: f"+{TUNE}" for one in DEMO} | {"fig1": "experiment.tuned=true"}
    asked = {name: own} if name else {one: [tune] for one, tune in tunes.items()}
    with TemporaryDirectory() as folder:
        outputs = (given.outputs or Path(folder)).resolve()
        found = {one: measured(outputs, one, arguments) for one, arguments in asked.items()}
    print(text := report(found))
    if not name:
        fill(ROOT / "docs" / "tuning.md", "benchmarks.rates", text)


def report(found: Mapping[str, tuple[list[Chosen], list[str]]]) -> str:
    """Return the tables in words."""
    margin = math.log1p(0.01)
    every = [one for choices, _ in found.values() for one in choices]
    pairs = [
        (one.losses[one.rates[0]], one.losses[rate]) for one in every for rate in one.rejected()
    ]
    beaten = sum(chosen - other > margin for chosen, other in pairs)
    open_ = sum(len(one.rates) > 1 for one in every)
    flips = [claim for _, claims in found.values() for claim in claims]
    rows = []
    for words, rule in RULES.items():
        worse = [one.loss_of(rule(one)) for one in every]
        over = sum(one > margin for one in worse)
        rows.append([words, f"{mean(worse):.2%}", f"{max(worse):.2%}", f"{over} of {len(worse)}"])
    head = ("rule", "worse than the best rate, mean", "at most", "by more than 1 %")
    return f"""{measured_on()}. Experiments: {", ".join(found)}.

- Pairs of a point and a rejected rate next to its own: {len(pairs)}; the rejected one is better by
  more than 1 % in {beaten}.
- {open_} of {len(every)} choices were open between two rates.
- Claims decided the other way if an arm takes the rates that were not rejected:
  {", ".join(flips) or "none"}.

{table(head, rows)}
"""


if __name__ == "__main__":
    main()
