"""What deciding by seeds costs and how often it errs: `python -m benchmarks.decisions`.

Simulates experiments (benchmarks/simulated.py) that are looked at up to 30 seeds a point, and
prints docs/decisions.md. Rules of stopping: every claim looked at after every seed of
all points ("each seed"), which contains whoever stops at any time for any reason; the end of all at
the first answer to any claim ("first answer"); rounds of eight runs where they narrow the undecided
claims most ("rounds"). Beside them a fixed number of seeds and Student's t interval, with the
spread pooled, right for one look: as it is meant, and looked at after every seed ("naive").
"""

from __future__ import annotations

import itertools
import time
from pathlib import Path

from benchmarks.measure import arguments, table

if __name__ == "__main__":
    arguments(__doc__)  # --help is answered before numpy is imported

import numpy as np
from scipy.special import betaincinv

from benchmarks.simulated import SEEDS, Shape, shapes
from benchmarks.stopping import Simulated, looks, rounds, student
from sweeper.results.statistics.sequential import FIRST, intervals

Cells = tuple[str, ...]

EFFECTS = (0.0, 0.5, 1.0, 2.0, 4.0)


def main() -> None:
    experiments = 100 if arguments(__doc__).smoke else 2000
    start = time.process_time()
    pairs = itertools.product(shapes(), EFFECTS)
    found = [measured(shape, effect, experiments) for shape, effect in pairs]
    errors = ("shape", "effect", "each seed", "first answer", "rounds", "naive", "fixed")
    costs = ("shape", "effect", "seeds a point", "of fixed", "decided", "rounds: of fixed")
    seconds = time.process_time() - start
    print(Path(__file__).with_suffix(".md").read_text())
    print(f"{experiments:,} experiments a line, {seconds:.0f} s of one core.\n")
    print("Experiments with any wrong answer, % (one-sided 95 % bound, Clopper and Pearson):\n")
    print(table(errors, [wrong for wrong, _ in found]))
    print("\nWhat a decision costs:\n")
    print(table((*costs, "decided", "fixed: decided"), [took for _, took in found]))


def measured(shape: Shape, effect: float, experiments: int) -> tuple[Cells, Cells]:
    """Each rule on the same experiments: a line of each table."""
    given = Simulated(shape, effect, experiments)
    each = looks(given, range(FIRST, SEEDS + 1), intervals)
    bought, runs = rounds(given)
    naive = looks(given, range(2, SEEDS + 1), student)
    fixed = looks(given, [shape.fixed], student)
    name = (shape.name, f"{effect:g}" if effect else "none")
    first = each.seeds == each.seeds.min(axis=-1, keepdims=True)
    errors = (
        share(each.wrong),
        share(each.wrong & first),
        share(bought.wrong),
        share(naive.wrong),
        share(fixed.wrong),
    )
    costs = (
        f"{each.seeds.mean():.2f}",
        f"{each.seeds.mean() / shape.fixed:.3f}",
        f"{each.decided.mean():.0%}",
        f"{runs.mean() / (shape.fixed * given.used.sum()):.3f}",
        f"{bought.decided.mean():.0%}",
        f"{fixed.decided.mean():.0%}",
    )
    return (*name, *errors), (*name, *costs)


def share(of_claims: np.ndarray) -> str:
    """The share of experiments (experiments, claims), with its one-sided 95 % bound."""
    hits, tried = int(of_claims.any(axis=-1).sum()), len(of_claims)
    upper = float(betaincinv(hits + 1, tried - hits, 0.95)) if hits < tried else 1.0
    return f"{100 * hits / tried:.2f} ({100 * upper:.2f})"


if __name__ == "__main__":
    main()
