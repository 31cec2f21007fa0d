"""Fine-tuning on MNLI: does a premise entail a hypothesis, contradict it, or neither?"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from models.bert_heads import Classifier
from sweeper.store.errors import invalid_value
from sweeper.store.runs import RunStore
from tasks.architectures.encoder import EncoderSection
from tasks.batch import Batch
from tasks.fine_tuning.data import FineTuningSection
from tasks.fine_tuning.module import FineTuning
from tasks.mnli.data import LabelledPairs
from tasks.mnli.dataset import LABELS


class NaturalLanguageInference(FineTuning):
    """The task of classifying pairs of sentences.

    The input of the output layer is the encoder's output at the first position of a row.
    """

    section: FineTuningSection
    Data = LabelledPairs
    data: LabelledPairs
    model: Classifier
    labels = ("labels",)
    measured = ("test/loss", "test/accuracy")

    def build(self) -> Classifier:
        assert isinstance(self.config.model, EncoderSection)
        encoder, dropout = self.encoder(), self.config.model.dropout
        return Classifier(encoder, classes=len(LABELS), dropout=dropout)

    def setup(self, stage: str) -> None:
        """Load the parent's weights before training starts.

        Raises:
            UserError: the parent is a run of the same task with another order of classes.
        """
        if stage == "fit" and self.parent is not None:
            parent = RunStore(self.data.outputs).run(self.parent)
            same_task = parent.record().config["task"]["name"] == self.config.task.name
            result = parent.result()
            facts = result.data if result else {}
            own = [*self.data.facts.get("labels", LABELS)]
            if same_task and own != [*facts.get("labels", LABELS)]:
                expected = f"a run with the classes {', '.join(own)}, in this order"
                remedy = "set it to a pre-training run, or to a run on the same data"
                raise invalid_value("parent", self.parent, expected, remedy)
        super().setup(stage)

    def forward(self, batch: Batch) -> Tensor:
        logits_BC: Tensor = self.outputs(batch)
        return logits_BC.float()

    def totals(self, batch: Batch) -> tuple[Tensor, ...]:
        return (F.cross_entropy(self(batch), batch["labels"], reduction="sum"),)

    def counts(self, batch: Batch) -> tuple[int, ...]:
        return (len(batch["labels"]),)

    def score(self, batch: Batch) -> dict[str, Tensor]:
        logits_BC, labels_B = self(batch), batch["labels"]
        return {
            "nats": F.cross_entropy(logits_BC, labels_B, reduction="sum"),
            "right": (logits_BC.argmax(-1) == labels_B).sum(),
            "pairs": torch.tensor(len(labels_B)),
        }

    def metrics(self, split: str, sums: Mapping[str, float]) -> dict[str, float]:
        baselines = self.data.baselines if split == "test" else {}
        return {
            f"{split}/accuracy": sums["right"] / sums["pairs"],
            f"{split}/loss": sums["nats"] / sums["pairs"],
            **{f"{split}/{name}": value for name, value in baselines.items()},
        }
