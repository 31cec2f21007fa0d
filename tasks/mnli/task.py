"""Fine-tuning on MNLI: does a premise entail a hypothesis, contradict it, or neither?"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from models.bert_heads import Classifier
from tasks.architectures.encoder import EncoderSection
from tasks.batch import Batch
from tasks.fine_tuning.shared import FineTuning, FineTuningSection
from tasks.mnli.data import LABELS, LabelledPairs
from tasks.task import Mean


class NaturalLanguageInference(FineTuning):
    """Tells three classes of pairs apart by the first position of a row."""

    section: FineTuningSection
    Examples = LabelledPairs
    data: LabelledPairs
    labels = ("labels",)
    measured = ("test/loss", "test/accuracy")

    def build(self) -> Classifier:
        assert isinstance(self.config.model, EncoderSection)
        encoder, dropout = self.encoder(), self.config.model.dropout
        return Classifier(encoder, classes=len(LABELS), dropout=dropout)

    def outputs(self, model: Classifier, batch: Batch) -> Tensor:
        logits_BC: Tensor = model(batch["tokens"], batch["token_type_ids"], batch["attention_mask"])
        return logits_BC.float()

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
        baselines = self.data.baselines if split == "test" else {}
        return {
            f"{split}/accuracy": totals["right"] / totals["pairs"],
            f"{split}/loss": totals["nats"] / totals["pairs"],
            **{f"{split}/{name}": value for name, value in baselines.items()},
        }
