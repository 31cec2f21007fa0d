"""Language modelling on packed sentences: the paper's LM1B experiments (section 4.1).

The task computes the loss of a batch of packed rows (data.py), in nats, and the perplexity of a
split. The model is the Decoder in models/transformer.py, or another subclass of LanguageModel in
models/language_model.py.

This file is stop 6 of the road through the code in CONTRIBUTING.md. Read
models/attention/multi_head.py next.
"""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from models.cross_entropy import IGNORED
from models.language_model import LanguageModel as Model
from tasks.batch import Batch
from tasks.lm1b import contract, heads, ngrams
from tasks.lm1b.data import LanguageModelSection, PackedText
from tasks.module import TaskModule


class LanguageModel(TaskModule):
    """The task of predicting each token of a sentence, including END, from earlier tokens."""

    Section = LanguageModelSection
    section: LanguageModelSection
    Data = PackedText
    data: PackedText
    model: Model
    architectures = ("decoder",)
    models = (Model,)
    labels = ("targets",)
    measured = (
        "test/loss",
        "test/perplexity",
        "test/perplexity_per_word",
        "test/bits_per_byte",
        "test/attention_rank",
        "test/attention_entropy",
    )

    def build(self) -> Model:
        model = self.config.model.build(self.section.vocabulary_size)
        assert isinstance(model, Model)
        return model

    def example(self) -> Batch:
        zeros = torch.zeros(1, self.section.sequence_length, dtype=torch.long)
        return {key: zeros for key in ("tokens", "targets", "segments", "positions")}

    def forward(self, batch: Batch) -> Tensor:
        return self.model.logits(self._hidden(batch))

    def totals(self, batch: Batch) -> tuple[Tensor, ...]:
        nats, _ = self.model.loss(self._hidden(batch), batch["targets"])
        return (nats,)

    def counts(self, batch: Batch) -> tuple[Tensor, ...]:
        return ((batch["targets"] != IGNORED).sum(),)

    def score(self, batch: Batch) -> dict[str, Tensor]:
        nats, count = self.model.loss(self._hidden(batch), batch["targets"])
        return {"nats": nats, "tokens": count}

    def metrics(self, split: str, sums: Mapping[str, float]) -> dict[str, float]:
        nats, tokens = sums["nats"], sums["tokens"]
        about = self.data.splits[split].about
        found = {
            f"{split}/loss": nats / tokens,
            f"{split}/perplexity": _exponential(nats / tokens),
        }
        # `about` counts the words and bytes of the whole split, but `sums` may cover a part of it.
        # So extrapolate the nats to the whole split.
        all_nats = nats * (about["tokens"] / tokens)
        # The perplexity per word makes models with different tokenizers comparable. As in
        # tensor2tensor, the end of a sentence counts as a word. In text without spaces there are
        # few words, so the perplexity per word can be infinite. Then omit it.
        per_word = _exponential(all_nats / (about["words"] + about["sentences"]))
        if math.isfinite(per_word):
            found[f"{split}/perplexity_per_word"] = per_word
        # Data that older versions prepared lack the number of bytes.
        if "bytes" in about:
            found[f"{split}/bits_per_byte"] = all_nats / math.log(2) / about["bytes"]
        return found

    def measure(self, split: str) -> dict[str, float]:
        found = super().measure(split)
        if split != "test":
            return found
        # A run with a parent has also learned from the parent's training text. The n-gram models
        # are fitted to the text of this run only, so omit them.
        if self.config.parent is None:
            found |= ngrams.perplexities(self.data, self.config.trainer.steps)
        # Do not check a diverged model, whose outputs may be NaN.
        if not math.isfinite(found["test/loss"]):
            return found
        first = next(iter(self.data.batches("test")))
        contract.check_outputs(self, first, "the trained model")
        return found | heads.measure(self)

    def _hidden(self, batch: Batch) -> Tensor:
        return self.model(batch["tokens"], batch["segments"], batch["positions"])


def _exponential(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf
