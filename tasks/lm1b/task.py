"""Language modelling on packed sentences: the paper's LM1B experiments (section 4.1).

In: batches of packed rows (data.py). Out: nats of a step, perplexities of a split. On the road: the
model is models/transformer.py.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from models.attention_map import HeadMeasures, head_measures
from models.head_sizes import heads_by_layer
from models.transformer import Decoder
from sweeper.store.files import with_checksum
from tasks.architectures.decoder import DecoderSection
from tasks.batch import Batch
from tasks.config.schema import given, whole
from tasks.config.sections import RunConfig, TextSection
from tasks.lm1b import ngrams
from tasks.lm1b.data import PackedText
from tasks.task import Evaluator, Mean, Task
from tasks.text.tokenizer import LARGEST_VOCABULARY, SMALLEST_BPE

MEASURED_ROWS = 4  # of the test split, for the rank and entropy of heads: they hardly vary


class LanguageModelSection(TextSection):
    """The keys of conf/task/lm1b.yaml."""

    vocabulary_size: Annotated[int, whole(SMALLEST_BPE, LARGEST_VOCABULARY, 32_768)]
    tokenizer_lines: Annotated[int, whole(1, 10**9, 1_000_000)]
    joined: Annotated[bool, given("true or false", False)] = False  # records from before the key


class LanguageModel(Task):
    """Predicts every piece of every sentence, its end included, from the pieces before it."""

    Section = LanguageModelSection
    section: LanguageModelSection
    Examples = PackedText
    architectures = ("decoder",)
    labels = ("targets",)
    measured = (
        "test/loss",
        "test/perplexity",
        "test/perplexity_per_word",
        "test/attention_rank",
        "test/attention_entropy",
    )
    data: PackedText

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self._layers: list[dict[str, list[float]]] = []

    def build(self) -> Decoder:
        assert isinstance(self.config.model, DecoderSection)
        return self.config.model.build(self.section.vocabulary_size)

    def example(self) -> Batch:
        zeros = torch.zeros(1, self.section.sequence_length, dtype=torch.long)
        return {key: zeros for key in ("tokens", "targets", "segments", "positions")}

    def outputs(self, model: Decoder, batch: Batch) -> Tensor:
        return model.logits(_hidden(model, batch))

    def loss(self, model: Decoder, batch: Batch) -> tuple[Mean, ...]:
        return (Mean(*model.loss(_hidden(model, batch), batch["targets"])),)

    def score(self, model: Decoder, batch: Batch) -> dict[str, Tensor]:
        nats, count = model.loss(_hidden(model, batch), batch["targets"])
        return {"nats": nats, "tokens": count}

    def evaluate(self, model: nn.Module, split: str, evaluator: Evaluator) -> dict[str, float]:
        found = super().evaluate(model, split, evaluator)
        if split == "test":
            found |= ngrams.perplexities(self.data, self.config.trainer.steps)
        # A model that diverged has no logits to speak of; its loss says so.
        if split == "test" and all(map(math.isfinite, found.values())):
            few = np.arange(min(MEASURED_ROWS, len(self.data.splits[split])))

            def measured(model: nn.Module, batch: Batch) -> list[HeadMeasures]:
                real_BT = batch["segments"] > 0
                return head_measures(lambda: self.outputs(cast(Decoder, model), batch), real_BT)

            [measures] = evaluator.run(model, [self.data.take(split, few)], measured)
            ranks, entropies = [of.rank_H for of in measures], [of.entropy_H for of in measures]
            section = cast(DecoderSection, self.config.model)
            sizes = (section.layers, section.heads, section.resolved_head_size)
            self._layers = [
                {"rank": rank_H.tolist(), "entropy": entropy_H.tolist()}
                for rank_H, entropy_H in zip(
                    heads_by_layer(ranks, *sizes), heads_by_layer(entropies, *sizes), strict=True
                )
            ]
            if measures:  # a variant that weighs positions in another way has none
                found["test/attention_rank"] = float(torch.cat(ranks).mean())
                found["test/attention_entropy"] = float(torch.cat(entropies).mean())
        return found

    def files(self) -> dict[str, Any]:
        found = with_checksum({"layers": self._layers})
        return {"attention.json": found} if self._layers else {}

    def metrics(self, split: str, totals: Mapping[str, float]) -> dict[str, float]:
        nats, tokens = totals["nats"], totals["tokens"]
        about = self.data.splits[split].about
        found = {
            f"{split}/loss": nats / tokens,
            f"{split}/perplexity": _exponential(nats / tokens),
        }
        # Per word and end of sentence, as tensor2tensor counts them: independent of the pieces.
        per_word = _exponential(nats / (about["words"] + about["sentences"]))
        if math.isfinite(per_word):  # a script that writes no spaces has hardly a word in a line
            found[f"{split}/perplexity_per_word"] = per_word
        return found


def _hidden(model: Decoder, batch: Batch) -> Tensor:
    return model(batch["tokens"], batch["segments"], batch["positions"])


def _exponential(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf
