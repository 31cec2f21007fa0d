"""The contract of a task: what is learned, from which data, and what is measured at the end.

A task is one file `tasks/<name>.py` with one subclass of Task, found by its name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from sweeper.store.errors import wrong
from tasks import learning_rate
from tasks.batch import Batch, repeated
from tasks.config.sections import RunConfig, TaskSection, TextSection
from tasks.evaluation import Evaluator

DRAWN = "drawn"  # what stands for a text where there is none


class Mean(NamedTuple):
    """A mean over things of a batch, such as its tokens, before it is divided by their number.

    The rows of a batch may be split between devices and worked off in parts: totals and counts add
    up to those of the whole. A count that takes computing stays on the device.
    """

    total: Tensor
    count: Tensor | int


class Task(ABC):
    """What is learned, made from the config of one run.

    Whatever looks random is a function of the run's seed and a counter, never of a state: that is
    why a run that was killed and continued ends with the same bits. `model` is always what `build`
    returned, a class that the task knows.
    """

    Section: ClassVar[type[TaskSection]]
    architectures: ClassVar[tuple[str, ...]]
    """The names `model.name` may take."""
    separable: ClassVar[bool] = True
    """Whether a batch without some of its rows is a batch."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config

    # The model

    @abstractmethod
    def build(self) -> nn.Module:
        """Return the model with fresh weights, on the default device (meta: only to count)."""

    @abstractmethod
    def example(self) -> Batch:
        """Return the smallest batch, of zeros, on the default device."""

    def training_batches(self) -> tuple[Batch, ...]:
        """Return a batch, of zeros, of each shape that is trained on, on the default device."""
        example = self.example()
        return (repeated(example, self.tokens_seen(1) // self.positions(example)),)

    def evaluation_batch(self) -> Batch:
        """Return a batch, of zeros, as large as those that are evaluated."""
        return self.training_batches()[0]

    @abstractmethod
    def positions(self, batch: Batch) -> int:
        """Return how many positions a batch has, padding included."""

    @abstractmethod
    def outputs(self, model: Any, batch: Batch) -> Tensor:
        """Return the model's outputs: a forward pass with every matrix product of training."""

    def inherit(self, model: Any, weights: Mapping[str, Tensor]) -> None:
        """Give a fresh model the final weights of the run that `parent` names.

        Raises:
            UserError: they do not fit the model.
        """
        try:
            model.load_state_dict(dict(weights))
        except RuntimeError as error:
            expected = "a run with the same model and vocabulary"
            remedy = "give this run its parent's model section"
            raise wrong("parent", self.config.parent, expected, remedy) from error

    # The data. A task that reads none, but draws its examples, leaves the first four as they are.

    def source(self) -> tuple[str, str]:
        """Return the digest of what the text is, and one line for people; UserError if missing."""
        return DRAWN, "none, examples are drawn at random"

    def data_name(self) -> str:
        """Return the name of the folder of its prepared data: equal names, equal data."""
        return DRAWN

    def prepare(self, folder: Path) -> None:  # noqa: B027  (nothing to prepare is an answer)
        """Make what is missing in that folder. The caller keeps other processes out meanwhile."""

    def open(self, folder: Path) -> dict[str, Any]:
        """Open the prepared data and return what a result says about it; UserError if unusable."""
        return {}

    @abstractmethod
    def batch(self, step: int) -> Batch:
        """Return the training batch of a step (from 1): a function of (seed, step) alone."""

    @abstractmethod
    def batches(self, split: str) -> Iterator[Batch]:
        """Yield a whole split ("validation" or "test"), each example exactly once, in order."""

    # Learning

    @abstractmethod
    def loss(self, model: Any, batch: Batch) -> tuple[Mean, ...]:
        """Return the means over a batch whose sum is minimised. It may be a part of a batch."""

    def learning_rate(self, step: int) -> float:
        """Return the learning rate of a step (from 1)."""
        return learning_rate.learning_rate(self.config.optimizer, self.config.trainer.steps, step)

    def tokens_seen(self, steps: int) -> int:
        """Return how many positions the first `steps` steps see."""
        assert isinstance(self.config.task, TextSection)
        return steps * self.config.task.batch_tokens

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
        rows = evaluator.run(model, self.batches(split), self.score)
        totals = {key: torch.stack([row[key] for row in rows]).double().sum() for key in rows[0]}
        return self.metrics(split, {key: float(total) for key, total in totals.items()})
