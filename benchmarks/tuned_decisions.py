"""Simulate tuned experiments through real tables: `python -m benchmarks.tuned_decisions`.

Each experiment has the points and claims of Figure 1 at demo scale. Every point has three learning
rates, the best of them at a place of its own. Trials choose as in a sweep, then seeds are bought in
rounds. The functions that rank trials, choose, judge and buy are those of a sweep, called on tables
such as a sweep collects. A verdict is wrong if it is wrong about every point at its best rate. The
table goes into docs/decisions.md.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from benchmarks.measure import ROOT, read_rows, smoke

if __name__ == "__main__":
    smoke(__doc__)  # answers --help before numpy is imported

import numpy as np

from benchmarks.decisions import SEEDS, publish, share
from sweeper.results.choices import FINALISTS, Choice, choices, ranked
from sweeper.results.decision import Question
from sweeper.results.judge import questions, verdicts_on, wanted
from sweeper.results.points import RATE
from sweeper.results.statistics.sequential import FIRST, Floats, Intervals, decisions
from sweeper.results.table import Row, Table
from sweeper.results.verdict import Decision

KEPT = ROOT / "docs" / "results" / "demo" / "fig1.csv"
METRIC = "test/perplexity"
BY = "validation/loss"
CLAIMS = (
    "standard_worsens_beyond",
    "fixed_keeps_improving",
    "small_beats_large",
    "wins_at_equal_size",
    "saves_parameters",
)
RATES = (0.02, 0.04, 0.08)
TRIED = (1000, 1001, 1002)  # the seeds of trials
SPREAD = 0.006  # the standard deviation between seeds, of a loss
SHARED = 0.5  # the share of its variance that all points have in common
CURVATURE = 2.0  # what a rate one place from the best costs, in spreads


def kept_points() -> list[Row]:
    """Return a row of each point of the kept table, seed 0."""
    rows = (row for row in read_rows(KEPT) if row["seed"] == "0")
    return [{key: _cell(value) for key, value in row.items()} for row in rows]


def _cell(text: str) -> str | float | None:
    try:
        return float(text)
    except ValueError:
        return text or None


POINTS = kept_points()
MODELS = list(dict.fromkeys(str(row["run"]) for row in POINTS))  # two points can share their runs


def gain(row: Row) -> float:
    """Return what an effect of 1 adds to a point, in spreads."""
    heads = float(row["model.heads"])
    return {"standard": -(heads // 16), "fixed": math.log2(heads / 24)}.get(row["arm"], 1.0)


GAINS = np.array([next(gain(row) for row in POINTS if row["run"] == run) for run in MODELS])


@dataclass(frozen=True)
class Experiment:
    """One simulated experiment; values are in spreads, larger is better."""

    effect: float
    number: int

    @cached_property
    def random(self) -> np.random.Generator:
        """The source of its draws."""
        return np.random.default_rng([41, int(2 * self.effect), self.number])

    @cached_property
    def losses(self) -> Floats:
        """The loss of every model at every rate, (models, rates), 0 at its best."""
        best = self.random.uniform(0.5, 1.5, (len(MODELS), 1))
        lost = CURVATURE * (np.arange(len(RATES)) - best) ** 2
        found: Floats = lost - lost.min(axis=1, keepdims=True)
        return found

    def values(self, seeds: int) -> Floats:
        """Return new values: (models, rates, seeds)."""
        shape = (len(MODELS), len(RATES), seeds)
        common = self.random.standard_normal((1, 1, seeds)) * math.sqrt(SHARED)
        own = self.random.standard_normal(shape) * math.sqrt(1 - SHARED)
        means = self.effect * GAINS[:, None] - self.losses
        found: Floats = means[..., None] + common + own
        return found

    def choices(self) -> list[Choice]:
        """Return what trials choose for each point."""
        values = self.values(len(TRIED))

        def trials(seeds: int, among: Iterable[tuple[Row, int]]) -> Table:
            rows = [
                planned(
                    row,
                    rate,
                    seed,
                    point=words(row, rate),
                    **{BY: -SPREAD * values[of(row), rate, place]},
                )
                for row, rate in among
                for place, seed in enumerate(TRIED[:seeds])
            ]
            return made(BY, rows, {"tune": {"grid": {RATE: list(RATES)}}})

        every = [(row, rate) for row in POINTS for rate in range(len(RATES))]
        best = ranked(trials(1, every))
        finals = {(one.arm, one.name) for group in best for one in group[:FINALISTS]}
        last = [(row, rate) for row, rate in every if (row["arm"], words(row, rate)) in finals]
        return choices(trials(len(TRIED), last))


def of(row: Row) -> int:
    """Return the place of a point's model."""
    return MODELS.index(str(row["run"]))


def words(row: Row, rate: int) -> str:
    """Return the words of a point at a rate."""
    return f"{row['point']} learning_rate={RATES[rate]:g}"


def planned(row: Row, rate: int, seed: int, **cells: Any) -> dict[str, Any]:
    """Return the row of a run."""
    run = f"{row['run']}-{rate}-{seed}"
    return {**row, "seed": seed, "run": run, "state": "done", **cells}


def made(metric: str, rows: Sequence[Row], about: Row, rounds: Sequence[Row] = ()) -> Table:
    """Return the table of an experiment with these rows."""
    arms: dict[str, Any] = {str(row["arm"]): {} for row in POINTS}
    margin = {METRIC: {"size": "1 %", "reason": "less would make no one choose."}}
    settings = {
        words(row, rate): {"point": row["point"], RATE: RATES[rate]}
        for row in POINTS
        for rate in range(len(RATES))
    }
    experiment = {"metric": metric, "arms": arms, "margin": margin, **about}
    return Table("fig1", experiment, {"rounds": rounds}, settings, [], rows)


@dataclass
class Judged:
    """A tuned experiment while seeds come in.

    `at` has for each judged point its row, the place of its rate, and the cells of an alternative.
    """

    at: Sequence[tuple[Row, int, Row]]
    values: Floats

    def table(self, counts: Sequence[int], rounds: Sequence[Row] = ()) -> Table:
        """Return the table with these numbers of seeds at the judged points."""
        rows = [
            planned(row, rate, seed, **cells, **{METRIC: math.exp(3 - SPREAD * value)})
            for (row, rate, cells), count in zip(self.at, counts, strict=True)
            for seed, value in enumerate(self.values[of(row), rate, :count])
        ]
        return made(METRIC, rows, {"claims": CLAIMS}, rounds)

    def by_rounds(self) -> tuple[Table, int]:
        """Buy seeds until nothing decides more; return the last table and its number of runs."""
        counts, rounds = [FIRST] * len(self.at), list[Row]()
        while True:
            now = self.table(counts, rounds)
            more = wanted(now, SEEDS, 10**6)
            more = wanted(now, SEEDS, len(more)) if more else {}
            if not more:
                return now, len({row["run"] for row in now.rows})
            judged = {
                f"{row['run']}-{rate}-0": count
                for (row, rate, _), count in zip(self.at, counts, strict=True)
            }
            rounds.append({"seeds_judged": judged})
            for place, (row, _, cells) in enumerate(self.at):
                counts[place] += more.get((row["arm"], {**row, **cells}["point"]), 0)


def judged(one: Experiment) -> Judged:
    """Return an experiment with the rates that its trials chose, and those they left open."""
    at: list[tuple[Row, int, Row]] = []
    for row, choice in zip(POINTS, one.choices(), strict=True):
        at.append((row, RATES.index(choice.values[RATE]), {}))
        if choice.alternative:
            other = RATES.index(choice.alternative[RATE])
            to = f"{row['arm']} {row['point']}"
            at.append((row, other, {"point": words(row, other), "alternative_to": to}))
    return Judged(at, one.values(SEEDS))


def truth(effect: float) -> list[list[bool]]:
    """Return for each claim whether each verdict on it is right."""
    means = effect * GAINS * SPREAD
    every = Judged([(row, 1, {}) for row in POINTS], np.zeros((len(MODELS), len(RATES), SEEDS)))
    found = []
    for asked in questions(every.table([FIRST] * len(POINTS))):
        assert isinstance(asked, Question), asked
        values = asked.weights @ means
        values = values - [contrast.above for contrast in asked.contrasts]
        right = decisions(asked.combination, Intervals(values, values, values), asked.margins)
        within = bool((abs(values) <= asked.margins).all())
        found.append([bool(one) for one in right._replace(no_difference=np.array(within))])
    return found


def measured(effect: float, experiments: int) -> list[str]:
    """Return a row of the table."""
    right = truth(effect)
    wrong = np.zeros((experiments, len(CLAIMS)), dtype=bool)
    decided, runs, left_open, missed = 0, 0, 0, 0
    for number in range(experiments):
        one = Experiment(effect, number)
        tuned = judged(one)
        last, trained = tuned.by_rounds()
        for place, verdict in enumerate(verdicts_on(last)):
            if verdict.verdict is not Decision.UNDECIDED:
                decided += 1
                wrong[number, place] = not right[place][list(Decision).index(verdict.verdict)]
        runs += trained
        left_open += len(tuned.at) - len(POINTS)
        known = {(of(row), rate) for row, rate, _ in tuned.at}
        best = enumerate(one.losses.argmin(axis=1).tolist())  # rate of each model
        missed += sum(pair not in known for pair in best)
    return [
        f"{effect:g}" if effect else "none",
        share(wrong),
        f"{decided / wrong.size:.0%}",
        f"{runs / max(decided, 1):.1f}",
        f"{left_open / experiments / len(POINTS):.0%}",
        f"{missed / experiments / len(MODELS):.1%}",
    ]


def main() -> None:
    """Simulate with no effect and with one."""
    tiny = smoke(__doc__)
    experiments = 1 if tiny else 300
    rows = (measured(effect, experiments) for effect in (0.0, 1.0))
    head = ("effect", "wrong, %", "decided", "runs a claim", "open choices", "best rate left out")
    publish("benchmarks.tuned_decisions", experiments, head, rows, tiny=tiny)


if __name__ == "__main__":
    main()
