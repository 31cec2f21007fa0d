"""The base class of all tasks: a LightningModule with a run's model, loss and metrics.

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
    """The base class of tasks: a model with its loss and metrics, made from the config of a run.

    A task is a folder with a file `task.py`, which has one public subclass of this class.
    """

    Section: ClassVar[type[TaskSection]]
    """The schema of the config's section `task`."""
    Data: ClassVar[type[TaskData]]
    """The data module of the task."""
    architectures: ClassVar[tuple[str, ...]]
    """The values of `model.name` that the task trains."""
    models: ClassVar[tuple[type[nn.Module], ...]] = ()
    """The task also trains every architecture that builds a model of one of these classes."""
    measured: ClassVar[tuple[str, ...]] = ()
    """The metrics that an experiment may name. If there are none, it may name any metric."""
    labels: ClassVar[tuple[str, ...]] = ()
    """The tensors of a batch that `forward` must not read."""

    def __init__(self, config: RunConfig, data: TaskData) -> None:
        super().__init__()
        self.config = config
        self.section: Any = config.task  # an instance of the task's class Section
        self.data: Any = data  # an instance of the task's class Data
        self.parent = config.parent  # the id of the run whose weights `setup` loads
        self._sums: dict[str, Tensor] = {}
        torch.default_generator.manual_seed(derive(config.seed, "weights"))
        self.model: Any = self.build()
        # Convert the model now. pl.Trainer would do so only after it has loaded a checkpoint.
        if config.trainer.precision == "64-true":
            self.double()

    # Methods that a task defines

    @abstractmethod
    def build(self) -> nn.Module:
        """Return the model with newly initialised weights, on the default device."""

    @abstractmethod
    def example(self) -> Batch:
        """Return the smallest possible batch, filled with zeros, on the default device."""

    @abstractmethod
    def forward(self, batch: Batch) -> Tensor:
        """Return the model's outputs.

        To count FLOPs, the planner calls this method without labels. It must therefore compute all
        matrix products of a forward pass in training.
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
        """Return the metrics of a split by name, "<split>/<metric>".

        Args:
            sums: the scalars of `score`, summed over the whole split.
        """

    def positions(self, batch: Batch) -> int:
        """Return the number of positions of a batch, including padding."""
        return batch["tokens"].numel()

    def learning_rate(self, step: int) -> float:
        """Return the learning rate of a step, counted from 1."""
        return learning_rate(self.config.optimizer, self.config.trainer.steps, step)

    def files(self) -> dict[str, Any]:
        """Return the JSON files that a finished run keeps: a dict from file names to contents."""
        return {}

    def inherit(self, weights: Mapping[str, Tensor]) -> None:
        """Load the parent's final weights; raise UserError if they do not fit this model."""
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
        """Load the parent's weights once, before training starts."""
        if stage == "fit" and self.parent is not None:
            run = RunStore(self.data.outputs).run(self.parent)
            heads = run.record().config["model"]["heads"]
            self.inherit(adapted(self.model, final_weights(run, "parent"), heads))
            self.parent = None

    def on_fit_start(self) -> None:
        """Raise UserError if the Trainer's data have another number of steps than this module."""
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

        # Rank 0 uses the seed of a run on one device. Every other rank uses another seed.
        rank = [ranks.rank()] if ranks.rank() else []
        seed = derive(self.config.seed, "step", step, *rank)
        # torch.manual_seed would be slow: it formats a stack trace for every unused device type.
        torch.default_generator.manual_seed(seed)
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(seed)

    def training_step(
        self, batch: Batch, batch_idx: int, divisors: list[Tensor] | None = None
    ) -> Tensor:
        """Return the loss of this rank, scaled so that its mean over all ranks is the batch's loss.

        Args:
            divisors: the result of `self.divisors` for the whole batch. It is required if `batch`
                is only a part of a batch.
        """
        divisors = divisors or self.divisors(batch)
        terms = zip(self.totals(batch), divisors, strict=True)
        means = [total / divisor.to(total.dtype) for total, divisor in terms]
        return functools.reduce(operator.add, means)

    def divisors(self, batch: Batch) -> list[Tensor]:
        """Return the divisors of the terms of the loss: the means of `counts` over the ranks.

        A divisor is at least 1 / ranks.world(), so that a batch without targets causes no division
        by zero.
        """
        device = next(iter(batch.values())).device
        found = []
        for count in self.counts(batch):
            # Create the tensor on the device. The host would have to wait for a copy.
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
        """Clip the global norm of the gradients to the limit of the config.

        This replaces Lightning's clipping by norm, which sums in another order and so changes the
        last bits. Lightning clips only if the Trainer has a limit of its own.
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
            # With "16-mixed", gradients are multiplied by a scale. A fused optimizer would divide
            # by it only in its step, after the clipping.
            scaler: Any = getattr(self.trainer.precision_plugin, "scaler", None)
            if scaler and getattr(optimizer, "_step_supports_amp_scaling", False):
                scaler.unscale_(optimizer)
        # With FSDP, each rank has only a part of the gradients. The root module can clip
        # all of them.
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
        # Keep only sums, so that the next batch can use the memory of this batch's logits.
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
        """Return the metrics of a split. All ranks must have scored their batches before."""
        own = {name: float(value) for name, value in self._sums.items()}
        whole: dict[str, float] = {}
        for sums in ranks.gathered([own]):  # a rank without a batch has no sums
            for name, value in sums.items():
                whole[name] = whole.get(name, 0.0) + value
        return self.metrics(split, whole)

    def autocast(self) -> torch.autocast:
        """Return a context manager that runs forward passes in the config's precision."""
        half = self.config.trainer.precision == "bf16-mixed"
        # Turn the cache off. A CUDA graph cannot read weights that were cast before its capture.
        return torch.autocast(
            self.device.type, torch.bfloat16, enabled=half, cache_enabled=False
        )

    def _log_metrics(self, split: str) -> None:
        # pl.Trainer rounds a float to single precision, but keeps the type of a tensor.
        for name, value in self.measure(split).items():
            exact = torch.tensor(value, dtype=torch.double, device=self.device)
            self.log(name, exact)
