"""Language modelling on packed sentences: the paper's LM1B experiments (section 4.1)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from models.attention_map import HeadMeasures, head_measures
from models.cross_entropy import IGNORED
from models.transformer import Decoder
from tasks.architectures.decoder import DecoderSection
from tasks.batch import Batch
from tasks.config.schema import Problem, whole
from tasks.config.sections import RunConfig, TextSection
from tasks.evaluation import Evaluator
from tasks.lm1b.prepare import TextSettings, folder_name, prepare
from tasks.lm1b.rows import PackedRows
from tasks.seeds import Shuffled
from tasks.task import Mean, Task
from tasks.text import corpus
from tasks.text.tokenizer import LARGEST_VOCABULARY, SMALLEST_BPE

MEASURED_ROWS = 4  # of the test split, for the rank and entropy of heads: they hardly vary


class LanguageModelSection(TextSection):
    """The keys of conf/task/lm1b.yaml."""

    vocabulary_size: Annotated[int, whole(SMALLEST_BPE, LARGEST_VOCABULARY, 32_768)]
    sequence_length: Annotated[int, whole(2, 65_536, 256)]
    tokenizer_lines: Annotated[int, whole(1, 10**9, 1_000_000)]

    def problems(self, path: str) -> Iterator[Problem]:
        if self.batch_tokens % self.sequence_length:
            whole_rows = max(self.batch_tokens // self.sequence_length, 1) * self.sequence_length
            expected = f"a multiple of {path}.sequence_length={self.sequence_length}"
            remedy = f"give it as {path}.batch_tokens={whole_rows}"
            yield Problem(f"{path}.batch_tokens", self.batch_tokens, expected, remedy)


class LanguageModel(Task):
    """Predicts every piece of every sentence, its end included, from the pieces before it.

    Batches are whole packed rows: tokens, targets, segments and positions, each (B, T).
    """

    Section = LanguageModelSection
    architectures = ("decoder",)

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        assert isinstance(config.task, LanguageModelSection)
        self.section = config.task
        self._text = config.data.model_dump()
        self.splits: dict[str, PackedRows] = {}
        self._layers: list[dict[str, list[float]]] = []

    @property
    def rows_per_batch(self) -> int:
        return self.section.batch_tokens // self.section.sequence_length

    def build(self) -> Decoder:
        assert isinstance(self.config.model, DecoderSection)
        return self.config.model.build(self.section.vocabulary_size)

    def example(self) -> Batch:
        zeros = torch.zeros(1, self.section.sequence_length, dtype=torch.long)
        return {key: zeros for key in ("tokens", "targets", "segments", "positions")}

    def positions(self, batch: Batch) -> int:
        return batch["tokens"].numel()

    def outputs(self, model: Decoder, batch: Batch) -> Tensor:
        return model.logits(_hidden(model, batch))

    def source(self) -> tuple[str, str]:
        return corpus.digest(self._text), corpus.describe(self._text)

    def data_name(self) -> str:
        return folder_name(self._text["digest"] or corpus.digest(self._text), self._settings())

    def prepare(self, folder: Path) -> None:
        prepare(folder, self._text, self._settings())

    def open(self, folder: Path) -> dict[str, Any]:
        self.splits = {split: PackedRows(folder / split) for split in corpus.SPLITS}
        about = {split: rows.about for split, rows in self.splits.items()}
        self._order = Shuffled(len(self.splits["train"]), self.config.seed)
        return {
            **{f"{split}_rows": facts["rows"] for split, facts in about.items()},
            **{f"{split}_tokens": facts["tokens"] for split, facts in about.items()},
            "skipped": about["train"]["skipped"],
        }

    def batch(self, step: int) -> Batch:
        rows = self.rows_per_batch
        return self._take("train", self._order.stretch((step - 1) * rows, rows))

    def batches(self, split: str) -> Iterator[Batch]:
        for first in range(0, len(self.splits[split]), self.rows_per_batch):
            last = min(first + self.rows_per_batch, len(self.splits[split]))
            yield self._take(split, np.arange(first, last))

    def loss(self, model: Decoder, batch: Batch) -> tuple[Mean, ...]:
        return (Mean(*model.loss(_hidden(model, batch), batch["targets"])),)

    def score(self, model: Decoder, batch: Batch) -> dict[str, Tensor]:
        nats, count = model.loss(_hidden(model, batch), batch["targets"])
        return {"nats": nats, "tokens": count}

    def evaluate(self, model: nn.Module, split: str, evaluator: Evaluator) -> dict[str, float]:
        found = super().evaluate(model, split, evaluator)
        # A model that diverged has no logits to speak of; its loss says so.
        if split == "test" and all(map(math.isfinite, found.values())):
            found |= self._attention(model, evaluator)
        return found

    def files(self) -> dict[str, Any]:
        return {"attention.json": {"layers": self._layers}} if self._layers else {}

    def _attention(self, model: nn.Module, evaluator: Evaluator) -> dict[str, float]:
        """The mean over all heads of what they do on a few rows; per head it goes to a file."""
        rows = np.arange(min(MEASURED_ROWS, len(self.splits["test"])))

        def measured(model: nn.Module, batch: Batch) -> list[HeadMeasures]:
            return head_measures(lambda: self.outputs(cast(Decoder, model), batch))

        [layers] = evaluator.run(model, [self._take("test", rows)], measured)
        if not layers:  # a variant that weighs positions in another way
            return {}
        self._layers = [
            {"rank": layer.rank_H.tolist(), "entropy": layer.entropy_H.tolist()} for layer in layers
        ]
        ranks_H, entropies_H = (
            torch.cat([getattr(layer, name) for layer in layers])
            for name in ("rank_H", "entropy_H")
        )
        return {
            "test/attention_rank": float(ranks_H.mean()),
            "test/attention_entropy": float(entropies_H.mean()),
        }

    def metrics(self, split: str, totals: Mapping[str, float]) -> dict[str, float]:
        nats, tokens = totals["nats"], totals["tokens"]
        about = self.splits[split].about
        return {
            f"{split}/loss": nats / tokens,
            f"{split}/perplexity": _exponential(nats / tokens),
            # Per word and end of sentence, as tensor2tensor counts them: independent of the pieces.
            f"{split}/perplexity_per_word": _exponential(
                nats / (about["words"] + about["sentences"])
            ),
        }

    def _settings(self) -> TextSettings:
        section = self.section
        return TextSettings(
            section.vocabulary_size, section.sequence_length, section.tokenizer_lines
        )

    def _take(self, split: str, numbers: np.ndarray) -> Batch:
        arrays = self.splits[split].rows(numbers)
        batch = {key: torch.from_numpy(array) for key, array in arrays.items()}
        batch["targets"].masked_fill_(batch["segments"] == 0, IGNORED)
        return batch


def _hidden(model: Decoder, batch: Batch) -> Tensor:
    hidden_BTD: Tensor = model(batch["tokens"], batch["segments"], batch["positions"])
    return hidden_BTD


def _exponential(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf
