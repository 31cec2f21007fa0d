"""The contract of a task: the model, its loss, and what is measured at the end.

A task is a folder with a `task.py` that has one subclass of Task. Its data are those of data.py.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn

from sweeper.store.errors import invalid_value
from tasks import ranks
from tasks.batch import Batch, moved
from tasks.config.sections import OptimizerSection, RunConfig, TaskSection
from tasks.data import Data

Output = TypeVar("Output")


@dataclass(frozen=True)
class Mean:
    """A mean over things of a batch, such as its tokens, before it is divided by their number.

    Totals and counts of the parts of a batch add up to those of the whole.
    """

    total: Tensor
    count: Tensor | int

    def __add__(self, other: Mean) -> Mean:
        return Mean(self.total + other.total, self.count + other.count)


def learning_rate(optimizer: OptimizerSection, steps: int, step: int) -> float:
    """Return the rate of `step`, counted from 1, in a training of `steps`.

    rsqrt is tensor2tensor's constant * linear_warmup * rsqrt_decay. linear falls from the end of
    the warm-up, and would reach 0 one step after the last. bert is google-research/bert's: it falls
    from the first step, the warm-up takes the place of its beginning, and the first rate is 0.
    """
    peak, warmup = optimizer.learning_rate, optimizer.warmup_steps
    if optimizer.schedule == "bert":
        before = step - 1
        return peak * (before / warmup if before < warmup else 1 - before / steps)
    rise = min(1.0, step / warmup) if warmup else 1.0
    if optimizer.schedule == "rsqrt":
        return peak * rise / math.sqrt(max(step, warmup))
    if optimizer.schedule == "linear" and step > warmup:
        return peak * (steps + 1 - step) / (steps + 1 - warmup)
    return peak * rise


def _read(sums: Mapping[str, Tensor]) -> dict[str, float]:
    """Return scalars as numbers: the host waits for the device once, however many there are."""
    numbers = {key: value.item() for key, value in sums.items() if value.device.type == "cpu"}
    if there := [key for key in sums if key not in numbers]:
        read = torch.stack([sums[key].double() for key in there]).tolist()
        numbers |= dict(zip(there, read, strict=True))
    return numbers


SAMPLED = 0.005  # of the training's positions: four forward passes take less than 1 % of its time


@dataclass(frozen=True)
class Evaluator:
    """Runs a model over a whole split: no gradients, no dropout, the precision of training.

    `between` is called before each batch; it may raise to stop.
    """

    device: torch.device
    precision: str
    between: Callable[[], None] = lambda: None

    def run(
        self,
        model: nn.Module,
        batches: Iterable[Batch],
        function: Callable[[nn.Module, Batch], Output],
    ) -> list[Output]:
        """Return `function(model, batch)` of every batch; the model's mode is left as it was."""
        training = model.training
        model.eval()
        outputs = []
        half = self.precision == "bf16-mixed"
        try:
            with (
                torch.inference_mode(),
                torch.autocast(self.device.type, torch.bfloat16, enabled=half),
            ):
                for batch in batches:
                    self.between()
                    outputs.append(function(model, moved(batch, self.device)))
        finally:
            model.train(training)
        return outputs


class Task(ABC):
    """A learning problem, made from the config of one run; `model` is what `build` returned."""

    Section: ClassVar[type[TaskSection]]
    """The keys of `task` in a config."""
    Examples: ClassVar[type[Data]]
    """What `data` is one of."""
    architectures: ClassVar[tuple[str, ...]]
    """The names `model.name` may take."""
    measured: ClassVar[tuple[str, ...]] = ()
    """The metrics of a finished run, which experiments are held against; empty where unsaid."""
    labels: ClassVar[tuple[str, ...]] = ()
    """The entries of a batch that `outputs` may not read."""
    separable: ClassVar[bool] = True
    """Whether a batch without some of its rows is a batch."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.section: Any = config.task  # of the class Section
        self.data: Any = self.Examples(config)

    # The model

    @abstractmethod
    def build(self) -> nn.Module:
        """Return the model with fresh weights, on the default device (meta: only to count)."""

    @abstractmethod
    def example(self) -> Batch:
        """Return the smallest batch, of zeros, on the default device."""

    def positions(self, batch: Batch) -> int:
        """Return how many positions a batch has, padding included."""
        return batch["tokens"].numel()

    @abstractmethod
    def outputs(self, model: Any, batch: Batch) -> Tensor:
        """Return the model's outputs: a forward pass with every matrix product of training."""

    def inherit(self, model: Any, weights: Mapping[str, Tensor]) -> None:
        """Give a fresh model its parent's final weights; UserError if they do not fit."""
        try:
            model.load_state_dict(dict(weights))
        except RuntimeError as error:
            expected = "a run with the same model and vocabulary"
            remedy = "give this run its parent's model section"
            raise invalid_value("parent", self.config.parent, expected, remedy) from error

    # Learning

    @abstractmethod
    def loss(self, model: Any, batch: Batch) -> tuple[Mean, ...]:
        """Return the means over a batch whose sum is minimised. It may be a part of a batch."""

    def learning_rate(self, step: int) -> float:
        """Return the learning rate of a step (from 1)."""
        return learning_rate(self.config.optimizer, self.config.trainer.steps, step)

    # Measuring

    @abstractmethod
    def score(self, model: Any, batch: Batch) -> dict[str, Tensor]:
        """Return sums over a batch: scalars that may be added over the batches of a split."""

    @abstractmethod
    def metrics(self, split: str, totals: Mapping[str, float]) -> dict[str, float]:
        """Return the metrics of a split, "<split>/<name>", from the sums over all of it."""

    def files(self) -> dict[str, Any]:
        """Return what a finished run leaves beside its metrics: plain values by file name."""
        return {}

    def evaluate(self, model: nn.Module, split: str, evaluator: Evaluator) -> dict[str, float]:
        """Return the metrics of a whole split, from exact sums: never a mean of means."""
        totals: dict[str, Tensor] = {}

        def add(model: nn.Module, batch: Batch) -> None:
            # None is kept of each batch: among a CPU's freed logits it would bar them from reuse.
            for key, value in self.score(model, batch).items():
                totals[key] = totals.get(key, 0.0) + value.double()

        evaluator.run(model, self.data.shares(split), add)
        parts = ranks.gathered([_read(totals)])
        keys = dict.fromkeys(key for part in parts for key in part)  # a rank may have no batch
        sums = {key: math.fsum(part.get(key, 0.0) for part in parts) for key in keys}
        return self.metrics(split, sums)

    def sampled_loss(self, model: nn.Module, evaluator: Evaluator) -> dict[str, float]:
        """Return the loss on the first rows of the validation split, the same for all runs.

        The rows have as many positions as a step, or SAMPLED of the training's; none of a second
        batch. Empty for a task that measures no loss.
        """
        if "test/loss" not in self.measured:
            return {}
        first = next(iter(self.data.batches("validation")))
        positions = next(iter(first.values()))[0].numel()
        tokens_seen, steps = self.data.tokens_seen, self.config.trainer.steps
        rows = math.ceil(max(tokens_seen(1), SAMPLED * tokens_seen(steps)) / positions)
        few = {name: tensor[:rows] for name, tensor in first.items()}
        [sums] = evaluator.run(model, [few], self.score)
        metrics = self.metrics("validation", _read(sums))
        return {name: value for name, value in metrics.items() if name == "validation/loss"}
