"""A task in which a model looks up values by their keys. How large must its heads be?

The data are random pairs of keys and values, drawn at every step. Shapes: B rows, D embedding_size,
T = 2 * pairs positions. The first D // 2 numbers of a vector hold a key, the others a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tasks.architectures.layer import LayerSection
from tasks.batch import Batch
from tasks.config.schema import whole
from tasks.config.sections import TaskSection
from tasks.data import TaskData
from tasks.module import TaskModule
from tasks.seeds import derive

TEST_BATCHES, TEST_ROWS = 8, 256


class RecallSection(TaskSection):
    """The keys of conf/task/recall.yaml."""

    pairs: Annotated[int, whole(2, 4096, 16)]
    batch_rows: Annotated[int, whole(1, 2**20, 64)]


class Pairs(TaskData):
    """The data of the task. A row has the shape (T, D).

    The first half of a row's positions holds (key, value) pairs. The second half holds the same
    keys in the same order, each with zeros instead of its value. Keys lie on the unit sphere. The
    numbers of a value are 1 or -1.
    """

    section: RecallSection

    def batch(self, step: int) -> Batch:
        return self._drawn(self.section.batch_rows, "train", step)

    def batches(self, split: str) -> Iterator[Batch]:
        for number in range(TEST_BATCHES):
            yield self._drawn(TEST_ROWS, split, number)

    def tokens_seen(self, steps: int) -> int:
        return steps * self.section.batch_rows * 2 * self.section.pairs

    def _drawn(self, rows: int, *purpose: str | int) -> Batch:
        # Runs with different seeds are evaluated on the same rows.
        seed = self.config.seed if purpose[0] == "train" else 0
        generator = torch.Generator().manual_seed(derive(seed, "recall", *purpose))
        size = self.config.model.embedding_size
        drawn = torch.randn((rows, self.section.pairs, size), generator=generator)
        keys, values = drawn.tensor_split([size // 2], dim=-1)
        keys = F.normalize(keys, dim=-1)
        read = torch.cat((keys, values.sign()), dim=-1)
        asked = torch.cat((keys, torch.zeros_like(values)), dim=-1)
        x_BTD = torch.cat((read, asked), dim=1)
        double = self.config.trainer.precision == "64-true"
        return {"x": x_BTD.double() if double else x_BTD}


class Recall(TaskModule):
    """A task whose model predicts the value of each key in the second half of a row.

    The prediction is in the last D - D // 2 numbers of the output at the key's position.
    """

    Section = RecallSection
    section: RecallSection
    Data = Pairs
    measured = ("test/accuracy",)
    architectures = ("layer",)

    def build(self) -> Reader:
        assert isinstance(self.config.model, LayerSection)
        return Reader(self.config.model.build())

    def example(self) -> Batch:
        return {
            "x": torch.zeros(
                1, 2 * self.section.pairs, self.config.model.embedding_size
            )
        }

    def positions(self, batch: Batch) -> int:
        return batch["x"][..., 0].numel()

    def forward(self, batch: Batch) -> Tensor:
        output_BTD: Tensor = self.model(batch["x"])
        return output_BTD

    def totals(self, batch: Batch) -> tuple[Tensor, ...]:
        answers, values = self._answers(batch)
        return (F.mse_loss(answers, values, reduction="sum"),)

    def counts(self, batch: Batch) -> tuple[int, ...]:
        return (self._values(batch).numel(),)

    def score(self, batch: Batch) -> dict[str, Tensor]:
        answers, values = self._answers(batch)
        return {
            "right": (answers.sign() == values).sum(),
            "of": torch.tensor(values.numel()),
        }

    def metrics(self, split: str, sums: Mapping[str, float]) -> dict[str, float]:
        return {f"{split}/accuracy": sums["right"] / sums["of"]}

    def _answers(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the predicted values, from the second half of each row, and the true values."""
        asked = self(batch)[:, self.section.pairs :]
        return asked[..., self._key_size :], self._values(batch)

    def _values(self, batch: Batch) -> Tensor:
        return batch["x"][:, : self.section.pairs, self._key_size :]

    @property
    def _key_size(self) -> int:
        return self.config.model.embedding_size // 2


class Reader(nn.Module):
    """An attention layer in which every position attends only to the first half of its row."""

    def __init__(self, attention: nn.Module) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, x_BTD: Tensor) -> Tensor:
        """Return the output of the attention layer, of shape (B, T, D)."""
        length = x_BTD.shape[1]
        mask_T = torch.arange(length, device=x_BTD.device) < length // 2
        output_BTD: Tensor = self.attention(
            x_BTD, mask_T.expand(len(x_BTD), 1, length, -1)
        )
        return output_BTD

    def embedding_parameters(self) -> list[nn.Parameter]:
        """Return an empty list: there is no embedding, since the inputs are already vectors."""
        return []
