"""BERT's pre-training: masked tokens and the next sentence (paper, section 4.1 and appendix C)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from models.bert_heads import PretrainingModel
from models.cross_entropy import IGNORED
from sweeper.store.errors import invalid_value
from tasks.architectures.encoder import EncoderSection
from tasks.batch import Batch
from tasks.config.sections import RunConfig
from tasks.pretraining.data import MaskedDocuments, PretrainingSection
from tasks.pretraining.pairs import predictions
from tasks.task import Mean, Task, learning_rate


class Pretraining(Task):
    """Restores masked pieces, and tells whether the second text of a row follows the first."""

    Section = PretrainingSection
    section: PretrainingSection
    Examples = MaskedDocuments
    architectures = ("encoder",)
    labels = ("targets", "next")
    measured = (
        "test/loss",
        "test/mlm_loss",
        "test/mlm_accuracy",
        "test/nsp_loss",
        "test/nsp_accuracy",
    )

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        trainer, optimizer = config.trainer, config.optimizer
        second = self.section.second_phase
        self._first_steps = trainer.steps - second.steps
        if self._first_steps < 1:
            key, remedy = "task.second_phase.steps", "lower it, or give 0"
            expected = f"fewer than trainer.steps={trainer.steps}, which counts both phases"
            raise invalid_value(key, second.steps, expected, remedy)
        warmup = optimizer.warmup_steps
        if optimizer.schedule == "linear" and warmup >= self._first_steps:
            expected = f"fewer than the first phase's {self._first_steps} steps"
            raise invalid_value("optimizer.warmup_steps", warmup, expected, "lower it")
        longest = max(self.section.sequence_length, second.sequence_length * (second.steps > 0))
        assert isinstance(config.model, EncoderSection)
        positions = config.model.positions
        if positions < longest:
            expected = f"at least the {longest} of a row"
            remedy = f"give it as model.positions={longest}"
            raise invalid_value("model.positions", positions, expected, remedy)

    def build(self) -> PretrainingModel:
        architecture = self.config.model
        assert isinstance(architecture, EncoderSection)
        model = PretrainingModel(architecture.build(self.section.vocabulary_size))
        for head in (model.pooler, model.masked_tokens, model.next_sentence):
            architecture.widen(head)
        return model

    def example(self) -> Batch:
        length = self.section.sequence_length
        zeros = torch.zeros(1, length, dtype=torch.long)
        hidden = torch.zeros(1, predictions(length), dtype=torch.long)
        row = {"tokens": zeros, "token_type_ids": zeros, "attention_mask": zeros.bool()}
        return {**row, "places": hidden, "targets": hidden, "next": zeros[:, 0]}

    def outputs(self, model: PretrainingModel, batch: Batch) -> Tensor:
        hidden_BTD = _hidden(model, batch)
        tokens_BMV = model.token_logits(hidden_BTD, batch["places"])
        return torch.cat((tokens_BMV.flatten(1), model.next_logits(hidden_BTD)), dim=1)

    def loss(self, model: PretrainingModel, batch: Batch) -> tuple[Mean, ...]:
        hidden_BTD = _hidden(model, batch)
        masked = model.token_loss(hidden_BTD, batch["places"], batch["targets"])
        next_B2 = model.next_logits(hidden_BTD).float()
        following = F.cross_entropy(next_B2, batch["next"], reduction="sum")
        return Mean(*masked), Mean(following, len(next_B2))

    def learning_rate(self, step: int) -> float:
        """Return the rate of a step; each phase runs through a whole schedule of its own."""
        optimizer, steps = self.config.optimizer, self._first_steps
        phase, step = self.section.phase_of(step, self.config.trainer.steps)
        if phase:
            steps = self.section.second_phase.steps
            warmup = {"warmup_steps": self.section.second_phase.warmup_steps}
            optimizer = optimizer.model_copy(update=warmup)
        return learning_rate(optimizer, steps, step)

    def score(self, model: PretrainingModel, batch: Batch) -> dict[str, Tensor]:
        hidden_BTD, targets_BM = _hidden(model, batch), batch["targets"]
        logits_NV = model.token_logits(hidden_BTD, batch["places"]).flatten(0, 1).float()
        next_B2 = model.next_logits(hidden_BTD).float()
        targets_N = targets_BM.flatten()
        return {
            "mlm_nats": F.cross_entropy(logits_NV, targets_N, reduction="sum"),
            "mlm_right": (logits_NV.argmax(-1) == targets_N).sum(),
            "masked": (targets_N != IGNORED).sum(),
            "nsp_nats": F.cross_entropy(next_B2, batch["next"], reduction="sum"),
            "nsp_right": (next_B2.argmax(-1) == batch["next"]).sum(),
            "rows": torch.tensor(len(next_B2)),
        }

    def metrics(self, split: str, totals: Mapping[str, float]) -> dict[str, float]:
        masked, rows = totals["masked"], totals["rows"]
        mlm_loss, nsp_loss = totals["mlm_nats"] / masked, totals["nsp_nats"] / rows
        return {
            f"{split}/loss": mlm_loss + nsp_loss,
            f"{split}/mlm_loss": mlm_loss,
            f"{split}/mlm_accuracy": totals["mlm_right"] / masked,
            f"{split}/nsp_loss": nsp_loss,
            f"{split}/nsp_accuracy": totals["nsp_right"] / rows,
        }


def _hidden(model: PretrainingModel, batch: Batch) -> Tensor:
    return model(batch["tokens"], batch["token_type_ids"], batch["attention_mask"])
