"""The base class of all tasks: a LightningModule with the model, loss and metrics of a run.

The project's loop (`training/loop.py`) and `pl.Trainer` call the same hooks and end with the same
weights, bit for bit.
"""

from __future__ import annotations

import functools
import operator
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from sweeper.store import registry
from sweeper.store.errors import invalid_value
from sweeper.store.runs import RunStore
from tasks import ranks
from tasks.batch import Batch
from tasks.checkpoint import final_weights
from tasks.config.sections import RunConfig, TaskSection
from tasks.data import TaskData
from tasks.inheritance import adapted
from tasks.schedule import learning_rate
from tasks.seeds import derive


class TaskModule(pl.LightningModule, ABC):
    """The base class of tasks. An instance has the model, the loss and the metrics of one run.

    Each task has a folder with a file `task.py`, which defines one public subclass of this class.
    """

    Section: ClassVar[type[TaskSection]]
    """The schema of the config's section `task`."""
    Data: ClassVar[type[TaskData]]
    """The data module of the task."""
    architectures: ClassVar[tuple[str, ...]]
    """The architectures that the task can train, as values of `model.name`."""
    models: ClassVar[tuple[type[nn.Module], ...]] = ()
    """The task can also train any architecture that builds a model of one of these classes."""
    measured: ClassVar[tuple[str, ...]] = ()
    """The metrics that experiments may name, such as "test/loss". If empty, any name is allowed."""
    labels: ClassVar[tuple[str, ...]] = ()
    """The names of the tensors in a batch that `forward` must not read, such as "targets"."""

    def __init__(self, config: RunConfig, data: TaskData) -> None:
        super().__init__()
        self.config = config
        self.section: Any = config.task  # an instance of the task's class Section
        self.data: Any = data  # an instance of the task's class Data
        # The id of the run whose final weights `setup` loads. None if there is no such run.
        self.parent = config.parent
        self._sums: dict[str, Tensor] = {}
        torch.default_generator.manual_seed(derive(config.seed, "weights"))
        self.model: Any = self.build()
        # Convert the model before it loads a checkpoint. pl.Trainer would convert it afterwards.
        if config.trainer.precision == "64-true":
            self.double()

    # Methods that a task defines

    @abstractmethod
    def build(self) -> nn.Module:
        """Return the model with newly initialised weights, on the default device."""

    @abstractmethod
    def example(self) -> Batch:
        """Return a batch of zeros, as small as `forward` accepts, on the default device."""

    @abstractmethod
    def forward(self, batch: Batch) -> Tensor:
        """Return the model's outputs.

        The size server calls this method on a batch without `labels`, to count the FLOPs of a
        forward pass. So this method must compute all matrix products that training computes.
        """

    @abstractmethod
    def totals(self, batch: Batch) -> tuple[Tensor, ...]:
        """Return the terms of the loss, each summed over the batch."""

    @abstractmethod
    def counts(self, batch: Batch) -> tuple[Tensor | int, ...]:
        """Return the divisor of each term of `totals`, such as the number of targets."""

    @abstractmethod
    def score(self, batch: Batch) -> dict[str, Tensor]:
        """Return the scalars that `metrics` needs, by name. Each is summed over the batch."""

    @abstractmethod
    def metrics(self, split: str, sums: Mapping[str, float]) -> dict[str, float]:
        """Return the metrics of a split. The keys have the form "<split>/<metric>".

        Args:
            split: "validation" or "test".
            sums: the scalars that `score` returns, summed over the whole split.
        """

    def positions(self, batch: Batch) -> int:
        """Return the number of positions of a batch, including padding."""
        return batch["tokens"].numel()

    def learning_rate(self, step: int) -> float:
        """Return the learning rate of a step, counted from 1."""
        return learning_rate(self.config.optimizer, self.config.trainer.steps, step)

    def files(self) -> dict[str, Any]:
        """Return JSON files to write to the attempt's folder: a dict from file names to contents.

        The job calls this method after it has evaluated the test split.
        """
        return {}

    def inherit(self, weights: Mapping[str, Tensor]) -> None:
        """Load the final weights of the run's parent into the model.

        Raise UserError if they do not fit the model.
        """
        try:
            self.model.load_state_dict(dict(weights))
        except RuntimeError as error:
            expected = "a run with the same model and vocabulary"
            remedy = "copy the parent's section `model` and its task.vocabulary_size"
            raise invalid_value(
                "parent", self.config.parent, expected, remedy
            ) from error

    # Hooks that Lightning calls during training

    def setup(self, stage: str) -> None:
        """Before training starts, load the weights of the run's parent, if it has one."""
        if stage == "fit" and self.parent is not None:
            run = RunStore(self.data.outputs).run(self.parent)
            heads = run.record().config["model"]["heads"]
            self.inherit(adapted(self.model, final_weights(run, "parent"), heads))
            self.parent = None

    def on_fit_start(self) -> None:
        """Raise UserError if `trainer.steps` differs between this module and its data module."""
        steps, data = self.config.trainer.steps, self.trainer.datamodule  # type: ignore[attr-defined]
        if isinstance(data, TaskData) and data.config.trainer.steps != steps:
            expected = (
                f"trainer.steps={data.config.trainer.steps}, as in the data module"
            )
            remedy = "pass the same changes to run.module and run.data"
            raise invalid_value("trainer.steps", steps, expected, remedy)

    def configure_optimizers(self) -> Optimizer:
        section = self.config.optimizer
        make = registry.function(
            registry.OPTIMIZERS, section.name, "optimizer.name", "optimizer"
        )
        return make(self.model, section)

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Set the learning rate and the random seed of a step."""
        step = batch_idx + 1
        optimizer: Any = self.optimizers(use_pl_optimizer=False)
        for group in optimizer.param_groups:
            group["lr"] = self.learning_rate(step)

        # Rank 0 uses the seed that a run on a single device uses. Each other rank has its own seed.
        rank = [ranks.rank()] if ranks.rank() else []
        seed = derive(self.config.seed, "step", step, *rank)
        # torch.manual_seed would be slow: it formats a stack trace for every unused device type.
        torch.default_generator.manual_seed(seed)
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(seed)

    def training_step(
        self, batch: Batch, batch_idx: int, divisors: list[Tensor] | None = None
    ) -> Tensor:
        """Return this rank's share of the loss. The mean of all ranks' shares is the batch's loss.

        Args:
            divisors: the result of `self.divisors` for all rows of this rank. It is required if
                `batch` is a micro-batch. By default, it is computed from `batch`.
        """
        divisors = divisors or self.divisors(batch)
        terms = zip(self.totals(batch), divisors, strict=True)
        means = [total / divisor.to(total.dtype) for total, divisor in terms]
        return functools.reduce(operator.add, means)

    def divisors(self, batch: Batch) -> list[Tensor]:
        """Return the divisor of each term of the loss: the mean of its count over all ranks.

        A divisor is at least 1 / ranks.world(), so that a batch without targets causes no division
        by zero.
        """
        device = next(iter(batch.values())).device
        found = []
        for count in self.counts(batch):
            # Create the tensor on the device, because a copy from the host would cause a wait.
            if not isinstance(count, Tensor):
                count = torch.full((), count, device=device)
            mean = ranks.mean(count.double())
            found.append(mean.clamp(min=1 / ranks.world()))
        return found

    def configure_gradient_clipping(
        self,
        optimizer: Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clip the global norm of the gradients to `optimizer.gradient_clip` of the config.

        If the Trainer was created with a `gradient_clip_val`, Lightning clips to that value
        instead. Otherwise this method does not use Lightning's clipping, which sums in another
        order and so changes the last bits.
        """
        if gradient_clip_val is not None:
            given = (optimizer, gradient_clip_val, gradient_clip_algorithm)
            super().configure_gradient_clipping(*given)
            return
        largest = self.config.optimizer.gradient_clip
        if largest is None:
            return

        root: Any = self
        if self.fabric is None:
            root = self.trainer.model
            # With "16-mixed", gradients are multiplied by a scale. Divide by the scale before
            # clipping, because a fused optimizer divides only in its step.
            scaler: Any = getattr(self.trainer.precision_plugin, "scaler", None)
            if scaler and getattr(optimizer, "_step_supports_amp_scaling", False):
                scaler.unscale_(optimizer)
        # With FSDP, each rank has only a shard of the gradients, and the root module can compute
        # their global norm.
        if hasattr(root, "clip_grad_norm_"):
            root.clip_grad_norm_(largest)
        else:
            nn.utils.clip_grad_norm_(self.parameters(), largest)

    def on_train_batch_end(self, outputs: Any, batch: Batch, batch_idx: int) -> None:
        """Log the loss and the learning rate. Only pl.Trainer calls this hook."""
        self.log("train/loss", outputs["loss"], sync_dist=True)
        self.log("learning_rate", self.learning_rate(batch_idx + 1))

    # Lightning calls these hooks during evaluation. The project's own loop has no logger, so it
    # calls `measure` in place of `on_validation_epoch_end` and `on_test_epoch_end`.

    def on_validation_epoch_start(self) -> None:
        self._sums = {}

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        # Keep only the sums, and no logits, so that memory does not grow with the split.
        for name, value in self.score(batch).items():
            exact = torch.as_tensor(value).double()
            self._sums[name] = self._sums.get(name, 0.0) + exact

    def on_validation_epoch_end(self) -> None:
        self._log_metrics("validation")

    def on_test_epoch_start(self) -> None:
        self.on_validation_epoch_start()

    def test_step(self, batch: Batch, batch_idx: int) -> None:
        self.validation_step(batch, batch_idx)

    def on_test_epoch_end(self) -> None:
        self._log_metrics("test")

    def measure(self, split: str) -> dict[str, float]:
        """Return the metrics of a split from the sums of all ranks.

        Every rank must have scored its batches, and must call this method.
        """
        own = {name: float(value) for name, value in self._sums.items()}
        whole: dict[str, float] = {}
        for sums in ranks.gathered([own]):  # a rank without a batch has no sums
            for name, value in sums.items():
                whole[name] = whole.get(name, 0.0) + value
        return self.metrics(split, whole)

    def autocast(self) -> torch.autocast:
        """Return a context manager that runs forward passes in the config's precision."""
        half = self.config.trainer.precision == "bf16-mixed"
        # Turn off the cache of cast weights. A CUDA graph cannot use weights that were cast before
        # its capture.
        return torch.autocast(
            self.device.type, torch.bfloat16, enabled=half, cache_enabled=False
        )

    def _log_metrics(self, split: str) -> None:
        # pl.Trainer rounds a float to single precision, but keeps the type of a tensor.
        for name, value in self.measure(split).items():
            exact = torch.tensor(value, dtype=torch.double, device=self.device)
            self.log(name, exact)
