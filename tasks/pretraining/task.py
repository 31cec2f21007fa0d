"""BERT's pre-training: masked language modelling and next-sentence prediction.

The paper describes it in section 4.1 and appendix C.
"""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from models.bert_heads import PretrainingModel
from models.cross_entropy import IGNORED
from sweeper.store.errors import invalid_value
from tasks.architectures.encoder import EncoderSection
from tasks.batch import Batch
from tasks.config.sections import ENDS_AT_0
from tasks.module import TaskModule
from tasks.pretraining.data import MaskedDocuments, PretrainingSection
from tasks.pretraining.pairs import predictions
from tasks.schedule import learning_rate


class MaskedLanguageModel(TaskModule):
    """The task of predicting masked tokens, and whether a row's second text follows the first."""

    Section = PretrainingSection
    section: PretrainingSection
    Data = MaskedDocuments
    model: PretrainingModel
    architectures = ("encoder",)
    labels = ("targets", "next")
    measured = (
        "test/loss",
        "test/mlm_loss",
        "test/mlm_accuracy",
        "test/nsp_loss",
        "test/nsp_accuracy",
    )

    def build(self) -> PretrainingModel:
        architecture = self.config.model
        assert isinstance(architecture, EncoderSection)
        self._check(architecture)
        model = PretrainingModel(architecture.build(self.section.vocabulary_size))
        for head in (model.pooler, model.masked_tokens, model.next_sentence):
            architecture.widen(head)
        return model

    def _check(self, architecture: EncoderSection) -> None:
        """Raise UserError if the first phase is too short, or a row exceeds model.positions."""
        trainer, optimizer = self.config.trainer, self.config.optimizer
        second = self.section.second_phase
        if self._first_steps < 1:
            key = "task.second_phase.steps"
            expected = (
                f"fewer than trainer.steps={trainer.steps}, which both phases share"
            )
            remedy = f"lower it, or set {key}=0"
            raise invalid_value(key, second.steps, expected, remedy)

        warmup = optimizer.warmup_steps
        if optimizer.schedule in ENDS_AT_0 and warmup >= self._first_steps:
            expected = f"fewer than the {self._first_steps} steps of the first phase"
            remedy = f"set optimizer.warmup_steps={self._first_steps // 10}"
            raise invalid_value("optimizer.warmup_steps", warmup, expected, remedy)

        longest = max(
            self.section.sequence_length, second.sequence_length * (second.steps > 0)
        )
        if architecture.positions < longest:
            expected = f"at least {longest}, the length of the longest row"
            remedy = f"set model.positions={longest}"
            raise invalid_value(
                "model.positions", architecture.positions, expected, remedy
            )

    @property
    def _first_steps(self) -> int:
        return self.config.trainer.steps - self.section.second_phase.steps

    def example(self) -> Batch:
        length = self.section.sequence_length
        zeros = torch.zeros(1, length, dtype=torch.long)
        hidden = zeros[:, : predictions(length)]
        row = {"tokens": zeros, "token_type_ids": zeros, "attention_mask": zeros.bool()}
        return {**row, "places": hidden, "targets": hidden, "next": zeros[:, 0]}

    def forward(self, batch: Batch) -> Tensor:
        hidden_BTD = self._hidden(batch)
        tokens_BMV = self.model.token_logits(hidden_BTD, batch["places"])
        return torch.cat(
            (tokens_BMV.flatten(1), self.model.next_logits(hidden_BTD)), dim=1
        )

    def totals(self, batch: Batch) -> tuple[Tensor, ...]:
        hidden_BTD = self._hidden(batch)
        masked, _ = self.model.token_loss(hidden_BTD, batch["places"], batch["targets"])
        next_B2 = self.model.next_logits(hidden_BTD).float()
        return masked, F.cross_entropy(next_B2, batch["next"], reduction="sum")

    def counts(self, batch: Batch) -> tuple[Tensor | int, ...]:
        return (batch["targets"] != IGNORED).sum(), len(batch["next"])

    def learning_rate(self, step: int) -> float:
        """Return the learning rate of a step. Each phase has a schedule with warm-up and decay."""
        optimizer, steps = self.config.optimizer, self._first_steps
        phase, step = self.section.phase_of(step, self.config.trainer.steps)
        if phase:
            steps = self.section.second_phase.steps
            warmup = {"warmup_steps": self.section.second_phase.warmup_steps}
            optimizer = optimizer.model_copy(update=warmup)
        return learning_rate(optimizer, steps, step)

    def score(self, batch: Batch) -> dict[str, Tensor]:
        hidden_BTD, targets_BM = self._hidden(batch), batch["targets"]
        logits_BMV = self.model.token_logits(hidden_BTD, batch["places"])
        logits_NV, targets_N = logits_BMV.flatten(0, 1).float(), targets_BM.flatten()
        next_B2 = self.model.next_logits(hidden_BTD).float()
        return {
            "mlm_nats": F.cross_entropy(logits_NV, targets_N, reduction="sum"),
            "mlm_right": (logits_NV.argmax(-1) == targets_N).sum(),
            "masked": (targets_N != IGNORED).sum(),
            "nsp_nats": F.cross_entropy(next_B2, batch["next"], reduction="sum"),
            "nsp_right": (next_B2.argmax(-1) == batch["next"]).sum(),
            "random_next": batch["next"].sum(),
            "rows": torch.tensor(len(next_B2)),
        }

    def metrics(self, split: str, sums: Mapping[str, float]) -> dict[str, float]:
        masked, rows = sums["masked"], sums["rows"]
        majority = max(sums["random_next"], rows - sums["random_next"]) / rows
        mlm_loss, nsp_loss = sums["mlm_nats"] / masked, sums["nsp_nats"] / rows
        return {
            f"{split}/loss": mlm_loss + nsp_loss,
            f"{split}/mlm_loss": mlm_loss,
            f"{split}/mlm_accuracy": sums["mlm_right"] / masked,
            f"{split}/nsp_loss": nsp_loss,
            f"{split}/nsp_accuracy": sums["nsp_right"] / rows,
            f"{split}/majority_nsp_accuracy": majority,
        }

    def _hidden(self, batch: Batch) -> Tensor:
        return self.model(
            batch["tokens"], batch["token_type_ids"], batch["attention_mask"]
        )
