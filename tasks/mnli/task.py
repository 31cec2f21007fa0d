"""Fine-tuning on MNLI: does a premise entail a hypothesis, contradict it, or neither?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from models.bert_heads import Classifier
from tasks.architectures.encoder import EncoderSection
from tasks.batch import Batch
from tasks.config.sections import RunConfig
from tasks.fine_tuning.prepare import ExampleSettings, folder_name
from tasks.fine_tuning.shared import ExampleRows, FineTuningSection, encoder_of, inherit
from tasks.mnli.dataset import LABELS, MultiNLI
from tasks.mnli.prepare import prepare
from tasks.task import Mean, Task


class NaturalLanguageInference(Task):
    """Tells three classes of pairs apart by the first position of a row; accuracy on matched dev.

    Batches are rows of pairs: tokens, types and real, (B, T); labels, (B,).
    """

    Section = FineTuningSection
    architectures = ("encoder",)

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        assert isinstance(config.task, FineTuningSection)
        self._section = config.task
        self._data = config.data.model_dump()
        self._source = MultiNLI()

    def build(self) -> Classifier:
        assert isinstance(self.config.model, EncoderSection)
        encoder = encoder_of(self.config)
        return Classifier(encoder, classes=len(LABELS), dropout=self.config.model.dropout)

    def example(self) -> Batch:
        zeros = torch.zeros(1, self._section.sequence_length, dtype=torch.long)
        row = {"tokens": zeros, "types": zeros, "real": zeros.bool()}
        return {**row, "labels": zeros[:, 0]}

    def positions(self, batch: Batch) -> int:
        return batch["tokens"].numel()

    def outputs(self, model: Classifier, batch: Batch) -> Tensor:
        logits_BC: Tensor = model(batch["tokens"], batch["types"], batch["real"])
        return logits_BC.float()

    def inherit(self, model: Classifier, weights: Mapping[str, Tensor]) -> None:
        inherit(model, weights, self.config.parent)

    def source(self) -> tuple[str, str]:
        return self._source.digest(self._data), self._source.describe(self._data)

    def data_name(self) -> str:
        digest = self._data["digest"] or self._source.digest(self._data)
        return folder_name("mnli", digest, self._settings())

    def prepare(self, folder: Path) -> None:
        prepare(folder, self._data, self._settings())

    def open(self, folder: Path) -> dict[str, Any]:
        self._rows = ExampleRows(self.config, folder, ("labels",))
        self._baselines = self._rows.splits["test"].about["baselines"]
        return self._rows.facts()

    def batch(self, step: int) -> Batch:
        return self._rows.batch(step)

    def batches(self, split: str) -> Iterator[Batch]:
        return self._rows.batches(split)

    def loss(self, model: Classifier, batch: Batch) -> tuple[Mean, ...]:
        logits_BC, labels_B = self.outputs(model, batch), batch["labels"]
        return (Mean(F.cross_entropy(logits_BC, labels_B, reduction="sum"), len(labels_B)),)

    def score(self, model: Classifier, batch: Batch) -> dict[str, Tensor]:
        logits_BC, labels_B = self.outputs(model, batch), batch["labels"]
        return {
            "nats": F.cross_entropy(logits_BC, labels_B, reduction="sum"),
            "right": (logits_BC.argmax(-1) == labels_B).sum(),
            "pairs": torch.tensor(len(labels_B)),
        }

    def metrics(self, split: str, totals: Mapping[str, float]) -> dict[str, float]:
        baselines = self._baselines if split == "test" else {}
        return {
            f"{split}/accuracy": totals["right"] / totals["pairs"],
            f"{split}/loss": totals["nats"] / totals["pairs"],
            **{f"{split}/{name}": value for name, value in baselines.items()},
        }

    def _settings(self) -> ExampleSettings:
        section = self._section
        return ExampleSettings(
            section.tokenizer,
            section.vocabulary_size,
            section.tokenizer_lines,
            section.sequence_length,
        )
