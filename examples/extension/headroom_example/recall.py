"""How large must a head be to look a value up by its key? Fresh pairs, drawn at every step.

Shapes: B rows, T = 2 pairs positions, D embedding_size, of which the first K = D // 2 hold a key.
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
from tasks.config.sections import RunConfig, TaskSection
from tasks.seeds import derive
from tasks.task import Mean, Task

TEST_BATCHES, TEST_ROWS = 8, 256


class RecallSection(TaskSection):
    """The keys of conf/task/recall.yaml."""

    pairs: Annotated[int, whole(2, 4096, 16)]
    batch_rows: Annotated[int, whole(1, 2**20, 64)]


class Recall(Task):
    """Reads pairs of a key and a value, then answers each key with its value.

    A row is `pairs` positions (key, value), then `pairs` positions (key, 0) in the same order. Keys
    lie on the unit sphere, values are signs; the answer is wanted in the places of the value.
    """

    Section = RecallSection
    architectures = ("layer",)

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        assert isinstance(config.task, RecallSection)
        self._section = config.task
        self._key_size = config.model.embedding_size // 2

    def build(self) -> Reader:
        assert isinstance(self.config.model, LayerSection)
        return Reader(self.config.model.build())

    def example(self) -> Batch:
        return {"x": torch.zeros(1, 2 * self._section.pairs, self.config.model.embedding_size)}

    def positions(self, batch: Batch) -> int:
        return batch["x"][..., 0].numel()

    def outputs(self, model: Reader, batch: Batch) -> Tensor:
        output_BTD: Tensor = model(batch["x"])
        return output_BTD

    def batch(self, step: int) -> Batch:
        return self._drawn(self._section.batch_rows, "train", step)

    def batches(self, split: str) -> Iterator[Batch]:
        for number in range(TEST_BATCHES):
            yield self._drawn(TEST_ROWS, split, number)

    def loss(self, model: Reader, batch: Batch) -> tuple[Mean, ...]:
        answers, values = self._answers(model, batch)
        return (Mean(F.mse_loss(answers, values, reduction="sum"), values.numel()),)

    def tokens_seen(self, steps: int) -> int:
        return steps * self._section.batch_rows * 2 * self._section.pairs

    def score(self, model: Reader, batch: Batch) -> dict[str, Tensor]:
        answers, values = self._answers(model, batch)
        return {"right": (answers.sign() == values).sum(), "of": torch.tensor(values.numel())}

    def metrics(self, split: str, totals: Mapping[str, float]) -> dict[str, float]:
        return {f"{split}/accuracy": totals["right"] / totals["of"]}

    def _answers(self, model: Reader, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return what the second half of each row answers, and the values of the first."""
        pairs, size = self._section.pairs, self._key_size
        answers = self.outputs(model, batch)[:, pairs:, size:]
        return answers, batch["x"][:, :pairs, size:]

    def _drawn(self, rows: int, *purpose: str | int) -> Batch:
        # Every run is measured on the same rows, whatever its seed.
        seed = self.config.seed if purpose[0] == "train" else 0
        generator = torch.Generator().manual_seed(derive(seed, "recall", *purpose))
        shape = (rows, self._section.pairs, self.config.model.embedding_size)
        keys, values = torch.randn(shape, generator=generator).tensor_split([self._key_size], -1)
        keys = F.normalize(keys, dim=-1)
        read = torch.cat((keys, values.sign()), -1)
        asked = torch.cat((keys, torch.zeros_like(values)), -1)
        return {"x": torch.cat((read, asked), 1)}


class Reader(nn.Module):
    """An attention layer in which every position sees the pairs, the first half of its row."""

    def __init__(self, attention: nn.Module) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, x_BTD: Tensor) -> Tensor:
        """Return what each position makes of the pairs, (B, T, D)."""
        length = x_BTD.shape[1]
        mask_T = torch.arange(length, device=x_BTD.device) < length // 2
        output_BTD: Tensor = self.attention(x_BTD, mask_T.expand(len(x_BTD), 1, length, -1))
        return output_BTD

    def embedding_parameters(self) -> list[nn.Parameter]:
        """Return nothing: inputs are vectors already."""
        return []
