"""The nearest neighbour on fresh points: many small heads against a large one.

After Amsel, Yehudai and Bruna (2024).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.attention_map import without_autocast
from tasks.architectures.layer import LayerSection
from tasks.batch import Batch
from tasks.config.schema import given, whole
from tasks.config.sections import TaskSection
from tasks.data import Data
from tasks.seeds import derive
from tasks.task import Mean, Task

TEST_ROWS, AT_ONCE = 4096, 512


class NearestNeighbourSection(TaskSection):
    """The keys of conf/task/nearest_neighbour.yaml."""

    points: Annotated[int, whole(3, 4096, 16)]
    batch_rows: Annotated[int, whole(1, 2**20, 64)]
    sharpness: Annotated[float, given("a number above 0 and at most 1000", 8.0, gt=0, le=1000)]


class Points(Data):
    """Rows of points drawn on the unit sphere, (B, T, D)."""

    section: NearestNeighbourSection

    def batch(self, step: int) -> Batch:
        return self._drawn(self.section.batch_rows, "train", step)

    def batches(self, split: str) -> Iterator[Batch]:
        for number in range(TEST_ROWS // AT_ONCE):
            yield self._drawn(AT_ONCE, split, number)

    def tokens_seen(self, steps: int) -> int:
        return steps * self.section.batch_rows * self.section.points

    def _drawn(self, rows: int, *purpose: str | int) -> Batch:
        # Every run is measured on the same rows, whatever its seed.
        seed = self.config.seed if purpose[0] == "train" else 0
        generator = torch.Generator().manual_seed(derive(seed, "points", *purpose))
        shape = (rows, self.section.points, self.config.model.embedding_size)
        points = F.normalize(torch.randn(shape, generator=generator), dim=-1)
        double = self.config.trainer.precision == "64-true"
        return {"points": points.double() if double else points}


class NearestNeighbour(Task):
    """Finds for each point y of a row the mean of the others, by the softmax of sharpness * x^T y.

    One head of size D forms those weights exactly.
    """

    Section = NearestNeighbourSection
    section: NearestNeighbourSection
    Examples = Points
    architectures = ("layer",)
    measured = ("test/relative_error",)

    def build(self) -> Layer:
        assert isinstance(self.config.model, LayerSection)
        return Layer(self.config.model.build())

    def example(self) -> Batch:
        shape = (1, self.section.points, self.config.model.embedding_size)
        return {"points": torch.zeros(shape)}

    def positions(self, batch: Batch) -> int:
        return batch["points"][..., 0].numel()

    def outputs(self, model: Layer, batch: Batch) -> Tensor:
        return model(batch["points"])

    def loss(self, model: Layer, batch: Batch) -> tuple[Mean, ...]:
        target_BTD = self._target(batch["points"])
        square = F.mse_loss(self.outputs(model, batch), target_BTD, reduction="sum")
        return (Mean(square, target_BTD.numel()),)

    def score(self, model: Layer, batch: Batch) -> dict[str, Tensor]:
        target_BTD = self._target(batch["points"])
        wrong_BTD = self.outputs(model, batch) - target_BTD
        return {"wrong": wrong_BTD.square().sum(), "whole": target_BTD.square().sum()}

    def metrics(self, split: str, totals: Mapping[str, float]) -> dict[str, float]:
        return {f"{split}/relative_error": totals["wrong"] / totals["whole"]}

    def _target(self, x_BTD: Tensor) -> Tensor:
        with without_autocast(x_BTD.device):  # what is to be learned is not rounded
            logits_BTT = self.section.sharpness * x_BTD @ x_BTD.mT
            return logits_BTT.masked_fill(_itself(x_BTD), -torch.inf).softmax(-1) @ x_BTD


class Layer(nn.Module):
    """An attention layer in which no position sees itself."""

    def __init__(self, attention: nn.Module) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, x_BTD: Tensor) -> Tensor:
        """Return what each position makes of the others, (B, T, D)."""
        others_B1TT = ~_itself(x_BTD).expand(len(x_BTD), 1, -1, -1)
        return self.attention(x_BTD, others_B1TT)

    def embedding_parameters(self) -> list[nn.Parameter]:
        """Return nothing: inputs are vectors already."""
        return []


def _itself(x_BTD: Tensor) -> Tensor:
    """Return where a position (row) stands for itself (column), (T, T)."""
    return torch.eye(x_BTD.shape[1], dtype=torch.bool, device=x_BTD.device)
