"""AdaStop (Mathieu et al., 2023) on the simulated pairs: `python -m benchmarks.adastop_peer`.

It must be installed (`pip install adastop`). Prints the end of docs/decisions.md. Its loops are
Python's, so there are fewer experiments than of ours.
"""

from __future__ import annotations

import argparse
from importlib.metadata import version

import numpy as np

from benchmarks.decisions import share
from benchmarks.measure import table
from benchmarks.simulated import SEEDS, shapes
from benchmarks.stopping import Simulated

GROUP = 5
PERMUTATIONS = 10_000
PAIRS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experiments", type=int, default=200, help="of each effect")
    looks = SEEDS // GROUP
    experiments = parser.parse_args().experiments
    rows = []
    for effect in (0.0, 1.0, 2.0, 4.0):
        given = Simulated(shapes()[0], effect, experiments)
        found = [compared(values) for values in given.values[:, : 2 * PAIRS]]
        signs, seeds = (np.array(column) for column in zip(*found, strict=True))
        wrong = signs < 0 if effect else signs != 0
        cost = f"{seeds.mean() / given.shape.fixed:.3f}"
        rows.append((f"{effect:g}", share(wrong), cost, f"{(signs != 0).mean():.0%}"))
    print("\n## Beside AdaStop (`python -m benchmarks.adastop_peer >> docs/decisions.md`)\n")
    print(
        f"adastop {version('adastop')} compares scores in permutation tests by groups of seeds, "
        f"at a family-wise error of 5 %. The same five pairs, {GROUP} seeds a group, up to {looks} "
        f"groups, {PERMUTATIONS:,} permutations; {experiments} experiments a line. "
        "Without an effect a wrong answer is any difference found.\n"
    )
    print(table(("effect", "any wrong answer, % (bound)", "seeds, of fixed", "decided"), rows))


def compared(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of (2 * PAIRS, SEEDS) scores: the sign found for each pair, and the seeds that it took."""
    from adastop import MultipleAgentsComparator  # type: ignore[import-not-found]

    pairs = np.arange(2 * PAIRS).reshape(PAIRS, 2)
    looks = SEEDS // GROUP
    comparator = MultipleAgentsComparator(
        n=GROUP, K=looks, B=PERMUTATIONS, comparisons=pairs, alpha=0.05, seed=1
    )
    seeds = np.full(PAIRS, SEEDS)
    for look in range(1, looks + 1):
        scores = {str(point): row[: look * GROUP] for point, row in enumerate(values)}
        comparator.partial_compare(scores, verbose=False)
        said = [comparator.decisions[str(pair)] for pair in pairs]
        open_still = np.array([word == "continue" for word in said])
        seeds = np.where(open_still, SEEDS, np.minimum(seeds, look * GROUP))
        if comparator.is_finished:
            break
    signs = {"larger": 1, "smaller": -1}
    return np.array([signs.get(word, 0) for word in said]), seeds


if __name__ == "__main__":
    main()
