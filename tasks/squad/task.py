"""Fine-tuning on SQuAD v1.1: where in a paragraph is the answer to a question?

The input of the encoder is a question and one window of its paragraph (data.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from models.bert_heads import SpanFinder
from models.cross_entropy import IGNORED
from tasks import ranks
from tasks.batch import Batch
from tasks.fine_tuning.module import FineTuning
from tasks.squad import scoring
from tasks.squad.data import QuestionsSection, Windows

PREDICTIONS = "predictions.json"


class QuestionAnswering(FineTuning):
    """The task of finding the first and the last token of an answer in a window of text."""

    Section = QuestionsSection
    section: QuestionsSection
    Data = Windows
    data: Windows
    model: SpanFinder
    labels = ("start", "end")
    measured = ("test/loss", "test/exact_match", "test/f1")
    _scored: list[Batch]  # logits and attention masks of the batches evaluated so far
    _predictions: dict[str, str]  # the answers of the last evaluation, by question id

    def build(self) -> SpanFinder:
        return SpanFinder(self.encoder())

    def forward(self, batch: Batch) -> Tensor:
        """Return the start logits and the end logits of the answer, (2, B, T). Padding has -inf."""
        logits_2BT = torch.stack(self.outputs(batch)).float()
        return logits_2BT.masked_fill(~batch["attention_mask"], float("-inf"))

    def totals(self, batch: Batch) -> tuple[Tensor, ...]:
        return (_nats(self(batch), batch),)

    def counts(self, batch: Batch) -> tuple[Tensor, ...]:
        return ((batch["start"] != IGNORED).sum(),)

    def score(self, batch: Batch) -> dict[str, Tensor]:
        logits_2BT = self(batch)
        # Keep the logits on the device until the split is evaluated. A copy of each batch would
        # make the CPU wait for the GPU.
        kept = {"logits": logits_2BT, "attention_mask": batch["attention_mask"]}
        self._scored.append(kept)
        return {"nats": _nats(logits_2BT, batch), "windows": self.counts(batch)[0]}

    def metrics(self, split: str, sums: Mapping[str, float]) -> dict[str, float]:
        # The loss ignores windows of questions without a training answer. If the split has no other
        # windows, the mean would be 0 / 0.
        if not sums["windows"]:
            return {}
        return {f"{split}/loss": sums["nats"] / sums["windows"]}

    def on_validation_epoch_start(self) -> None:
        super().on_validation_epoch_start()
        self._scored = []

    def measure(self, split: str) -> dict[str, float]:
        """Return the metrics of a split, and store the predictions for the method `files`.

        The metrics exact_match and f1 are in percent.
        """
        losses = super().measure(split)
        own = [
            {key: tensor.cpu() for key, tensor in batch.items()}
            for batch in self._scored
        ]
        self._scored = []
        scores_N = []
        for batch in ranks.gathered(own):
            starts_BT, ends_BT = batch["logits"].numpy()
            lengths_B = batch["attention_mask"].sum(1).tolist()
            windows = zip(starts_BT, ends_BT, lengths_B, strict=True)
            scores_N += [
                (starts_T[:end], ends_T[:end]) for starts_T, ends_T, end in windows
            ]

        key, section = self.data.keys[split], self.section
        found = key.predictions(scores_N, section.candidates, section.answer_length)
        gold = [pair for pair in key.gold() if pair[0] in found]
        self._predictions = found
        baselines = self.data.baselines if split == "test" else {}
        scores = {**scoring.score(gold, found), **baselines}
        return losses | {f"{split}/{name}": value for name, value in scores.items()}

    def files(self) -> dict[str, Any]:
        """Return the predictions of the last evaluation, in the official evaluator's format."""
        return {PREDICTIONS: self._predictions}


def _nats(logits_2BT: Tensor, batch: Batch) -> Tensor:
    """Return the loss of a batch in nats, summed over its rows.

    The loss of a row is the mean of the cross-entropies of the answer's start and of its end.
    """
    starts, ends = (
        F.cross_entropy(logits_BT, batch[end], reduction="sum", ignore_index=IGNORED)
        for logits_BT, end in zip(logits_2BT, ("start", "end"), strict=True)
    )
    return (starts + ends) / 2
