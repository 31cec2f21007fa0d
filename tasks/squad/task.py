"""Fine-tuning on SQuAD v1.1: where in a paragraph is the answer to a question?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.bert_heads import SpanFinder
from models.cross_entropy import IGNORED
from tasks import ranks
from tasks.batch import Batch
from tasks.config.sections import RunConfig
from tasks.fine_tuning.shared import FineTuning
from tasks.squad import scoring
from tasks.squad.data import QuestionsSection, Windows
from tasks.task import Evaluator, Mean

PREDICTIONS = "predictions.json"


class QuestionAnswering(FineTuning):
    """Finds the first and the last piece of the answer in windows of the paragraph."""

    Section = QuestionsSection
    section: QuestionsSection
    Examples = Windows
    data: Windows
    labels = ("start", "end")
    measured = ("test/loss", "test/exact_match", "test/f1")

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self._predictions: dict[str, str] = {}

    def build(self) -> SpanFinder:
        return SpanFinder(self.encoder())

    def outputs(self, model: SpanFinder, batch: Batch) -> Tensor:
        """Return logits (2, B, T) of the answer's first and last piece; padding is no place."""
        logits_2BT = torch.stack(
            model(batch["tokens"], batch["token_type_ids"], batch["attention_mask"])
        ).float()
        return logits_2BT.masked_fill(~batch["attention_mask"], float("-inf"))

    def loss(self, model: SpanFinder, batch: Batch) -> tuple[Mean, ...]:
        totals = _totals(self.outputs(model, batch), batch)
        return (Mean(totals["nats"], totals["windows"]),)

    def score(self, model: SpanFinder, batch: Batch) -> dict[str, Tensor]:
        return _totals(self.outputs(model, batch), batch)

    def metrics(self, split: str, totals: Mapping[str, float]) -> dict[str, float]:
        return {f"{split}/loss": totals["nats"] / max(totals["windows"], 1)}

    def evaluate(self, model: nn.Module, split: str, evaluator: Evaluator) -> dict[str, float]:
        """Return the official scores of a split, in percent, and keep the predictions."""

        def measured(model: nn.Module, batch: Batch) -> dict[str, Tensor]:
            logits_2BT = self.outputs(cast(SpanFinder, model), batch)
            # They stay on the device until all are there: to copy each would be to wait for each.
            kept = {"logits": logits_2BT, "attention_mask": batch["attention_mask"]}
            return {**_totals(logits_2BT, batch), **kept}

        rows = evaluator.run(model, self.data.shares(split), measured)
        if ranks.world() > 1:
            own = [{key: tensor.cpu() for key, tensor in row.items()} for row in rows]
            rows = ranks.gathered(own)
        totals = {key: float(sum(row[key].double() for row in rows)) for key in ("nats", "windows")}
        key = self.data.keys[split]
        starts_NT, ends_NT = torch.cat([row["logits"] for row in rows], 1).cpu().numpy()
        lengths_N = torch.cat([row["attention_mask"] for row in rows]).cpu().sum(1).tolist()
        scores_N = [
            (starts_T[:length], ends_T[:length])
            for starts_T, ends_T, length in zip(starts_NT, ends_NT, lengths_N, strict=True)
        ]
        longest = self.section.answer_length
        self._predictions = key.predictions(scores_N, self.section.candidates, longest)
        baselines = self.data.baselines if split == "test" else {}
        scores = {**scoring.score(key.gold(), self._predictions), **baselines}
        named = {f"{split}/{name}": value for name, value in scores.items()}
        return {**self.metrics(split, totals), **named}

    def files(self) -> dict[str, Any]:
        """Return the predictions of the last evaluation, as the official evaluator takes them."""
        return {PREDICTIONS: self._predictions}


def _totals(logits_2BT: Tensor, batch: Batch) -> dict[str, Tensor]:
    """Return the mean nats of the two ends, summed over the windows, and the number of windows."""
    nats = [
        F.cross_entropy(logits_BT, batch[end], reduction="sum", ignore_index=IGNORED)
        for logits_BT, end in zip(logits_2BT, ("start", "end"), strict=True)
    ]
    return {"nats": (nats[0] + nats[1]) / 2, "windows": (batch["start"] != IGNORED).sum()}
