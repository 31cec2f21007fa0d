"""The claims of Figure 1, asked of worlds in which the answer is known."""

from pathlib import Path

from sweeper.results.claims.evidence.verdict import Decision, Verdict
from sweeper.results.judge import verdicts_on
from tests.sweeper.results.grids import Grid, figure1
from tests.sweeper.results.synthetic import Model, Sweep, Truth, paper

WORSENS, IMPROVES, BEATS = "standard_worsens_beyond", "fixed_keeps_improving", "small_beats_large"
LARGER = "larger_heads_improve"
N_MINUS_1, HALF = "bidirectional_takes_n_minus_1", "causal_takes_half"
SUPPORTED, NOT, SAME, OPEN = Decision


def verdicts(sweep: Sweep, folder: Path) -> dict[str, Verdict]:
    return {verdict.claim: verdict for verdict in verdicts_on(sweep.table(folder))}


def answers(sweep: Sweep, folder: Path) -> dict[str, Decision]:
    return {claim: verdict.verdict for claim, verdict in verdicts(sweep, folder).items()}


WHOLE = Grid()


def figure(truth: Truth, grid: Grid = WHOLE, seeds: int = 5) -> Sweep:
    """A Figure 1 with little noise."""
    return figure1(truth, grid, seeds=seeds, noise=0.002)


def most_heads(sweep: Sweep) -> str:
    """A run of the fixed arm that no other arm uses."""
    return [str(point["run"]) for point in sweep.points if point["arm"] == "fixed"][-1]


def generous(model: Model) -> float:
    """A world in which heads of size 32 are worth more than any embedding."""
    bonus = 9.0 if model.heads * model.head_size > model.embedding_size else 0.0
    return paper(model) - bonus


def stingy(model: Model) -> float:
    """A world in which only the embedding counts."""
    return 60.0 - model.embedding_size / 8
