"""What arms try before they are judged: which values, how the choice is made, equal budgets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from sweeper.store.errors import wrong

if TYPE_CHECKING:
    from sweeper.plan.experiment import Experiment

SPLIT = "validation/"
RATE = "optimizer.learning_rate"
LENGTH = "trainer.steps"
Values = Mapping[str, list[Any]]


class Per(StrEnum):
    """Which points of an arm share one choice."""

    arm = "arm"
    point = "point"
    size = "size"


class Transfer(StrEnum):
    """How a learning rate that was found at one width is carried over to an arm's other widths."""

    width = "width"
    """As 1 / sqrt(embedding size): Vaswani et al., Attention Is All You Need, 2017, equation 3.

    Heads do not enter: a rule for them would change what is under study."""


@dataclass
class Tune:
    """How values are chosen for the runs that are judged.

    Attributes:
        grid: keys, and the values that are tried of each; all combinations.
        by: the metric of the validation split that decides.
        seeds: of the trials; no run that is judged has one of them.
        steps: the length of a trial as a share of that of the runs that are judged; the warm-up is
            shortened alike.
        halving: shorter lengths, at the first of which all values are tried; the better half of
            those of a choice goes on to the next, at last to `steps`, each time from the start.
        per: what shares one choice: all points of an arm, those with equally many parameters, or
            each has its own. Of points that share one, the middle one is tried.
        grow: by how many values a range of numbers may grow where the best lies at its end.
        arms: those that are tuned; all if none is named.
        unequal: why only some are.
        transfer: arms whose learning rate is found at their least width for all of their points.
    """

    grid: dict[str, list[Any]]
    by: str = "validation/loss"
    seeds: list[int] = field(default_factory=lambda: [1000])
    steps: float = 1.0
    halving: list[float] = field(default_factory=list)
    per: Per = Per.size
    grow: int = 2
    arms: list[str] = field(default_factory=list)
    unequal: str = ""
    transfer: dict[str, Transfer] = field(default_factory=dict)

    def rungs(self, values: int) -> list[tuple[float, int]]:
        """The lengths of trials, and how many of so many values are tried at each."""
        lengths = [*self.halving, self.steps]
        return [(share, -(-values // 2**place)) for place, share in enumerate(lengths)]

    def length(self, values: int) -> float:
        """Of all trials of a choice among so many values, in full trainings of one seed."""
        return sum(share * count for share, count in self.rungs(values))

    def tunes(self, arm: str) -> bool:
        """Whether an arm is tuned."""
        return arm in self.arms or not self.arms


def check(experiment: Experiment) -> None:
    """Refuse what would not be a fair choice.

    Raises:
        UserError: no values, another split, seeds that are judged, budgets that differ unsaid.
    """
    tune = experiment.tune
    if tune is None:
        return
    where = f"experiment.tune of {experiment.name}"
    for key, values in tune.grid.items():
        _check_values(key, values, where)
    for key in (*tune.grid, *[LENGTH] * bool(tune.halving)):
        _check_swept(experiment, key, where)
    if not tune.by.startswith(SPLIT):
        remedy = "for example validation/loss"
        raise wrong(f"{where}, by", tune.by, "a metric of the validation split", remedy)
    judged = {*experiment.seeds, *(seed for arm in experiment.arms.values() for seed in arm.seeds)}
    if not tune.seeds or judged & {*tune.seeds}:
        expected = f"seeds that are not judged, as {', '.join(map(str, sorted(judged)))} are"
        raise wrong(f"{where}, seeds", list(tune.seeds), expected, "for example [1000]")
    if not 0 < tune.steps <= 1:
        expected = "a share of the full length, above 0 and at most 1"
        raise wrong(f"{where}, steps", tune.steps, expected, "for example 0.5")
    lengths = [0.0, *tune.halving, tune.steps]
    if any(longer <= shorter for shorter, longer in pairwise(lengths)):
        expected = f"rising shares of the full length, below steps={tune.steps}"
        raise wrong(f"{where}, halving", list(tune.halving), expected, "for example [0.1]")
    _check_arms(experiment, tune, where)


def _check_values(key: str, values: list[Any], where: str) -> None:
    if len({*map(repr, values)}) < max(len(values), 2):
        remedy = "list them"
        raise wrong(f"{where}, grid.{key}", list(values), "two different values or more", remedy)


def _check_swept(experiment: Experiment, key: str, where: str) -> None:
    for arm in experiment.arms.values():
        if any(key in axis.split(",") for axis in arm.grid):
            expected = f"a key that no arm sweeps, as {arm.name} does"
            raise wrong(f"{where}, grid", key, expected, "leave it out of one of the two")


def _check_arms(experiment: Experiment, tune: Tune, where: str) -> None:
    """Refuse budgets that differ between arms without a word, and runs that start from others."""
    arms = experiment.arms
    if not {*tune.arms} <= {*arms}:
        remedy = f"choose among {', '.join(arms)}"
        raise wrong(f"{where}, arms", list(tune.arms), "arms of the experiment", remedy)
    if tune.transfer and not ({*tune.transfer} <= {*arms} and RATE in tune.grid):
        expected = f"arms of the experiment, and {RATE} among what is tuned"
        raise wrong(f"{where}, transfer", list(tune.transfer), expected, "leave it out")
    untuned = [name for name in arms if not tune.tunes(name)]
    if untuned and not tune.unequal.strip():
        expected = f"all arms, since {', '.join(untuned)} would be judged without a trial"
        remedy = "name none, which is all, or say in tune.unequal why"
        raise wrong(f"{where}, arms", list(tune.arms), expected, remedy)
    if experiment.finetune or any(arm.parent for arm in arms.values()):
        expected = "none, since runs of this experiment start from others"
        raise wrong(f"{where}, grid", list(tune.grid), expected, "leave experiment.tune out")


def ordered(values: Sequence[Any]) -> bool:
    """Whether they are a range that has ends: numbers above 0."""
    return all(isinstance(v, int | float) and not isinstance(v, bool) and v > 0 for v in values)


def beyond(values: Sequence[Any], best: Any) -> Any:
    """The value one geometric step beyond the end of a range; None unless `best` lies there."""
    known = sorted(values) if ordered(values) else []
    if not known or best not in (known[0], known[-1]):
        return None
    end, inner = (known[0], known[1]) if best == known[0] else (known[-1], known[-2])
    following = end * end / inner
    whole = all(isinstance(value, int) for value in values)
    found = round(following) if whole else float(f"{following:.6g}")
    return found if found > 0 and found not in values else None
