"""An experiment on Theorem 1: which attention matrices can a head of a given size learn?

In one problem, a single attention head learns to compute a random attention matrix from a random
input X. The paper calls this matrix the context, P. A run has many problems. Each has a head of its
own, and each training step updates the heads of all problems.
"""

import functools
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

import torch
from torch import Tensor

from models.context_heads import ContextHeads, visible
from sweeper.store.errors import invalid_value, spelled
from tasks.architectures.layer import LayerSection
from tasks.batch import Batch
from tasks.config.schema import given, whole
from tasks.config.sections import TaskSection
from tasks.data import TaskData
from tasks.module import TaskModule
from tasks.seeds import derive


class RepresentationSection(TaskSection):
    """The section `task` of this experiment, as in conf/task/representation.yaml."""

    sequence_length: Annotated[int, whole(2, 4096, 11)]
    mask: Literal["causal", "bidirectional"]
    problems_per_run: Annotated[int, whole(1, 65_536, 32)]
    logit_scale: Annotated[
        float, given("a number above 0 and at most 100", 1.0, gt=0, le=100)
    ]


class Contexts(TaskData):
    """The problems of a run, as one batch that all steps and all splits use.

    The batch has `inputs` (K, D, N) and `logs` (K, N, N), the logarithms of the contexts. `logs`
    is -inf where the mask hides a key. K is problems_per_run, N sequence_length, D embedding_size.
    """

    section: RepresentationSection
    # The model has one head for each row of the batch, so every device needs all rows.
    separable = False

    # Leave inference mode to create the batch. The first use may be in a validation, which runs in
    # inference mode, and training cannot use tensors that were created in it.
    @functools.cached_property
    @torch.inference_mode(False)
    def _batch(self) -> Batch:
        problems, length = self.section.problems_per_run, self.section.sequence_length
        inputs_KDN = self._normal(
            "inputs", problems, self.config.model.embedding_size, length
        )
        logits_KNN = self.section.logit_scale * self._normal(
            "contexts", problems, length, length
        )
        if self.section.mask == "causal":
            logits_KNN = logits_KNN.masked_fill(~visible(length), -torch.inf)
        return {"inputs": inputs_KDN, "logs": logits_KNN.log_softmax(dim=-2)}

    def batch(self, step: int) -> Batch:
        return self._batch

    def batches(self, split: str) -> Iterator[Batch]:
        yield self._batch

    def tokens_seen(self, steps: int) -> int:
        return steps * self.section.problems_per_run * self.section.sequence_length

    def _normal(self, purpose: str, *shape: int) -> Tensor:
        """Draw standard normal numbers that depend only on the run's seed and on `purpose`."""
        generator = torch.Generator().manual_seed(derive(self.config.seed, purpose))
        double = self.config.trainer.precision == "64-true"
        drawn = torch.randn(*shape, generator=generator, dtype=torch.float64)
        return drawn if double else drawn.float()


class Representation(TaskModule):
    """The task of training K single attention heads to compute K given contexts.

    A context is an N x N matrix. Each of its columns is the softmax of normally distributed logits.
    """

    Section = RepresentationSection
    section: RepresentationSection
    Data = Contexts
    model: ContextHeads
    architectures = ("layer",)
    labels = ("logs",)
    measured = ("test/context_error",)

    def build(self) -> ContextHeads:
        model, section = self.config.model, self.section
        assert isinstance(model, LayerSection)
        for key, value, only in (
            ("heads", model.heads, 1),
            ("attention.name", model.attention.name, "multi_head"),
            (
                "attention.glorot",
                getattr(model.attention, "glorot", "matrix"),
                "matrix",
            ),
            ("attention.qk_norm", getattr(model.attention, "qk_norm", False), False),
        ):
            if value != only:
                expected = f"{spelled(only)}, because task.name={section.name} trains single heads"
                remedy = f"set model.{key}={spelled(only)}"
                raise invalid_value(f"model.{key}", value, expected, remedy)

        if model.embedding_size < section.sequence_length:
            expected = f"at least task.sequence_length={section.sequence_length}, as in Theorem 1"
            remedy = f"set model.embedding_size={section.sequence_length}"
            raise invalid_value(
                "model.embedding_size", model.embedding_size, expected, remedy
            )
        assert model.one_head_size is not None  # there is only one layer, with one head
        return ContextHeads(
            section.problems_per_run, model.embedding_size, model.one_head_size
        )

    def example(self) -> Batch:
        problems, length = self.section.problems_per_run, self.section.sequence_length
        return {
            "inputs": torch.zeros(problems, self.config.model.embedding_size, length)
        }

    def positions(self, batch: Batch) -> int:
        return batch["inputs"][:, 0].numel()

    def forward(self, batch: Batch) -> Tensor:
        return self.model(batch["inputs"], causal=self.section.mask == "causal")

    def totals(self, batch: Batch) -> tuple[Tensor, ...]:
        """Return the sum of the squared errors of the logarithms of all visible context entries.

        The loss uses logarithms, because the squared error of the context itself has plateaus,
        where gradients are close to zero.
        """
        errors_KNN = self(batch) - batch["logs"]
        return (errors_KNN.masked_fill(batch["logs"].isinf(), 0).square().sum(),)

    def counts(self, batch: Batch) -> tuple[Tensor, ...]:
        return ((~batch["logs"].isinf()).sum(),)

    def score(self, batch: Batch) -> dict[str, Tensor]:
        worst_K = (self(batch).exp() - batch["logs"].exp()).abs().amax((1, 2))
        logs_K = worst_K.clamp_min(torch.finfo(worst_K.dtype).eps).log10()
        return {"orders": logs_K.sum(), "problems": torch.tensor(len(logs_K))}

    def metrics(self, split: str, sums: Mapping[str, float]) -> dict[str, float]:
        # The errors of the problems differ by orders of magnitude, so take their geometric mean.
        return {f"{split}/context_error": 10 ** (sums["orders"] / sums["problems"])}
