"""An experiment as data: what one figure or table needs, and what its arms range over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from sweeper.plan.tuning.tune import Tune
from sweeper.store.errors import UserError
from sweeper.store.plans import ERROR


class Count(StrEnum):
    """What may be counted of a model."""

    params_total = "params_total"
    params_non_embedding = "params_non_embedding"
    flops_per_token = "flops_per_token"


class Pretrainings(StrEnum):
    """Of how many pre-trainings the seeds of a point are fine-tuned."""

    each = "each"
    one = "one"


@dataclass
class Margin:
    """What counts as no difference.

    Attributes:
        size: a number in the metric's unit as it is shown, or per cent of it ("1 %").
        reason: a sentence on why it is this large.
    """

    size: Any
    reason: str


@dataclass
class Match:
    """How the points of an arm are given the size of something else.

    Attributes:
        to: the arm whose points are matched one by one, or a number that all points are matched to.
        count: what is counted, a `Count`.
        solve: the config key of the whole number that is solved for.
        tolerance: largest accepted |achieved / target - 1|.
        where: which points of the arm `to` are matched, an expression over config keys.
        multiple_of: the solution is a multiple of this number, or of that under this config key.
        same: config keys that have the value of the point that is matched.
    """

    to: str | int
    solve: str
    tolerance: float
    count: Count = Count.params_total
    where: str | None = None
    multiple_of: str | int = 1
    same: list[str] = field(default_factory=list)


@dataclass
class Arm:
    """One curve: what is fixed (`set`), what is swept (`grid`), which points count (`where`).

    Attributes:
        metric: what it is measured by, where that is not the experiment's metric.
        parent: the arm whose runs its own start from, each from that of the same seed. A point is
            then one of that arm's with what this arm sets and sweeps besides; its model is the
            parent's but for the keys that this arm names.
        seeds: its own, where it is to share no run with an arm that trains the same model.
    """

    name: str
    label: str
    set: dict[str, Any] = field(default_factory=dict)
    grid: dict[str, list[Any]] = field(default_factory=dict)
    where: str | None = None
    match: Match | None = None
    metric: str | None = None
    parent: str | None = None
    seeds: list[int] = field(default_factory=list)


@dataclass
class Experiment:
    """Arms, the metric they are compared on, and how the result is drawn and judged.

    Attributes:
        name: of what it leaves: plan, table, figure.
        yaml: the file in conf/experiment that describes it; empty for a grid typed by hand.
        margin: metric -> the difference below which arms count as alike.
        error: the chance that any of its claims ever gets a wrong answer.
        finetune: task -> the metrics shown of it. Each point is then a pre-training that is
            fine-tuned on every one of these tasks.
        pretrainings: each seed pre-trains and fine-tunes; or all seeds fine-tune one pre-training,
            as papers do, and verdicts are about these weights only.
        paper: a value of `x` -> what the paper prints there, to stand beside what was measured.
        tune: what is chosen for the arms before they are judged.
        tuned: whether it is; what is not chosen stays as it stands in the configs.
    """

    name: str
    title: str
    metric: str
    arms: dict[str, Arm]
    yaml: str = ""
    x: str = "params_total"
    figure: str = "curves"
    claims: list[str] = field(default_factory=list)
    seeds: list[int] = field(default_factory=lambda: [0])
    margin: dict[str, Margin] = field(default_factory=dict)
    error: float = ERROR
    finetune: dict[str, list[str]] = field(default_factory=dict)
    pretrainings: Pretrainings = Pretrainings.each
    paper: dict[Any, Any] = field(default_factory=dict)
    tune: Tune | None = None
    tuned: bool = True

    def described(self) -> dict[str, Any]:
        """What the stages after the plan need to know, as plain data."""
        same = ("title", "metric", "x", "figure", "claims", "margin", "error", "finetune")
        plain = asdict(self)
        return {
            **{key: plain[key] for key in same},
            "paper": {str(value): dict(printed) for value, printed in self.paper.items()},
            "arms": {
                arm.name: {"label": arm.label, "metric": arm.metric or self.metric}
                | ({"parent": arm.parent} if arm.parent else {})
                for arm in self.arms.values()
            },
            **({"tune": plain["tune"]} if self.tune else {}),
        }


def with_typed(
    experiment: Experiment, axes: Mapping[str, list[Any]], fixed: Mapping[str, Any]
) -> Experiment:
    """The experiment under a command line: what is typed wins over what an arm sets or sweeps.

    Args:
        axes: keys typed with several values; every arm sweeps them.
        fixed: keys typed with one value; an arm that sweeps such a key has that one value left.

    Raises:
        UserError: a key that an arm solves for is typed.
    """

    def overlaid(arm: Arm) -> Arm:
        if arm.match and arm.match.solve in {*axes, *fixed}:
            raise UserError(
                f"{arm.match.solve} is what arm {arm.name} of experiment={experiment.yaml} solves"
                " for, so it cannot be given; leave it out, or write a grid without an experiment."
            )
        kept = {key: value for key, value in arm.set.items() if key not in {*axes, *fixed}}
        left = {key: [fixed[key]] if key in fixed else values for key, values in arm.grid.items()}
        return replace(arm, set=kept, grid={**left, **axes})

    arms, tune = {name: overlaid(arm) for name, arm in experiment.arms.items()}, experiment.tune
    if tune:
        free = {key: values for key, values in tune.grid.items() if key not in {*axes, *fixed}}
        tune = replace(tune, grid=free) if free else None
    return replace(experiment, arms=arms, tune=tune)
