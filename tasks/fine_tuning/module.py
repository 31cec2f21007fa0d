"""The base class of the fine-tuning tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from models.transformer import Encoder
from sweeper.store.errors import invalid_value
from tasks.architectures.encoder import EncoderSection
from tasks.batch import Batch
from tasks.fine_tuning.data import FineTuningSection
from tasks.module import TaskModule


class FineTuning(TaskModule):
    """The base class of tasks that fine-tune a pre-trained encoder on rows of two texts."""

    Section: ClassVar[type[FineTuningSection]] = FineTuningSection
    architectures = ("encoder",)

    def encoder(self) -> Encoder:
        """Return the config's encoder with newly initialised weights.

        Raises:
            UserError: a row can be longer than the encoder's number of positions.
        """
        length, model = self.section.sequence_length, self.config.model
        assert isinstance(model, EncoderSection)
        if length > model.positions:
            expected = f"at most model.positions={model.positions}"
            remedy = f"set task.sequence_length={model.positions}"
            raise invalid_value("task.sequence_length", length, expected, remedy)
        return model.build(self.section.vocabulary_size)

    def example(self) -> Batch:
        zeros = torch.zeros(1, self.section.sequence_length, dtype=torch.long)
        row = {"tokens": zeros, "token_type_ids": zeros, "attention_mask": zeros.bool()}
        return row | {name: zeros[:, 0] for name in self.data.columns}

    def outputs(self, batch: Batch) -> Any:
        """Call the model on the rows of a batch, and return its outputs."""
        inputs = (batch["tokens"], batch["token_type_ids"], batch["attention_mask"])
        return self.model(*inputs)

    def inherit(self, weights: Mapping[str, Tensor]) -> None:
        """Load the parent's encoder, and its other layers if this model has them, too.

        These are the pooler and, if the parent is a run of the same task, the output layer.
        """
        own = self.model.state_dict()
        # If the parent lacks a layer outside the encoder, the layer keeps its initial weights.
        fresh = {name: own[name] for name in own if not name.startswith("encoder.")}
        inherited = {
            name: value
            for name, value in weights.items()
            if name in fresh or name.startswith("encoder.")
        }
        super().inherit(fresh | inherited)
