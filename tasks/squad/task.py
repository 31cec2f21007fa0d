"""Fine-tuning on SQuAD v1.1: where in a paragraph is the answer to a question?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.bert_heads import SpanFinder
from models.cross_entropy import IGNORED
from tasks.batch import Batch
from tasks.config.schema import Problem, whole
from tasks.config.sections import RunConfig
from tasks.evaluation import Evaluator
from tasks.fine_tuning.prepare import folder_name
from tasks.fine_tuning.sequences import FRAME
from tasks.fine_tuning.shared import ExampleRows, FineTuningSection, encoder_of, inherit
from tasks.squad import scoring
from tasks.squad.answer_key import AnswerKey, Scores, Search
from tasks.squad.dataset import SQuAD
from tasks.squad.prepare import WindowSettings, prepare
from tasks.task import Mean, Task

PREDICTIONS = "predictions.json"


class QuestionsSection(FineTuningSection):
    """The keys of conf/task/squad.yaml."""

    question_length: Annotated[int, whole(1, 65_536, 64)]
    stride: Annotated[int, whole(1, 65_536, 128)]
    candidates: Annotated[int, whole(1, 1024, 20)]
    answer_length: Annotated[int, whole(1, 65_536, 30)]

    def problems(self, path: str) -> Iterator[Problem]:
        yield from super().problems(path)
        room = self.sequence_length - FRAME - self.question_length
        if room < 1:
            most = self.sequence_length - FRAME - 1
            expected = f"at most {most}, since a row has {path}.sequence_length pieces"
            remedy = f"give it as {path}.question_length={max(most // 2, 1)}"
            yield Problem(f"{path}.question_length", self.question_length, expected, remedy)


class QuestionAnswering(Task):
    """Finds the first and the last piece of the answer in windows of the paragraph.

    Batches are rows of a question and a window: tokens, types and real, (B, T); start and end,
    (B,), position 0 where the answer is in another window.
    """

    Section = QuestionsSection
    architectures = ("encoder",)

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        assert isinstance(config.task, QuestionsSection)
        self._section = config.task
        self._data = config.data.model_dump()
        self._source = SQuAD()
        self._predictions: dict[str, str] = {}

    def build(self) -> SpanFinder:
        return SpanFinder(encoder_of(self.config))

    def example(self) -> Batch:
        zeros = torch.zeros(1, self._section.sequence_length, dtype=torch.long)
        row = {"tokens": zeros, "types": zeros, "real": zeros.bool()}
        return {**row, "start": zeros[:, 0], "end": zeros[:, 0]}

    def positions(self, batch: Batch) -> int:
        return batch["tokens"].numel()

    def outputs(self, model: SpanFinder, batch: Batch) -> Tensor:
        """Return logits (2, B, T) of the answer's first and last piece; padding is no place."""
        logits_2BT = torch.stack(model(batch["tokens"], batch["types"], batch["real"])).float()
        return logits_2BT.masked_fill(~batch["real"], float("-inf"))

    def inherit(self, model: SpanFinder, weights: Mapping[str, Tensor]) -> None:
        inherit(model, weights, self.config.parent)

    def source(self) -> tuple[str, str]:
        return self._source.digest(self._data), self._source.describe(self._data)

    def data_name(self) -> str:
        digest = self._data["digest"] or self._source.digest(self._data)
        return folder_name("squad", digest, self._settings())

    def prepare(self, folder: Path) -> None:
        prepare(folder, self._data, self._settings())

    def open(self, folder: Path) -> dict[str, Any]:
        self._rows = ExampleRows(self.config, folder, ("start", "end"))
        splits = self._rows.splits
        self._keys = {
            split: AnswerKey(folder / split, splits[split]) for split in ("validation", "test")
        }
        self._baselines = splits["test"].about["baselines"]
        questions = {f"{split}_questions": splits[split].about["questions"] for split in splits}
        return {**self._rows.facts(), **questions}

    def batch(self, step: int) -> Batch:
        return self._rows.batch(step)

    def batches(self, split: str) -> Iterator[Batch]:
        return self._rows.batches(split)

    def loss(self, model: SpanFinder, batch: Batch) -> tuple[Mean, ...]:
        totals = _totals(self.outputs(model, batch), batch)
        return (Mean(totals["nats"], totals["windows"]),)

    def score(self, model: SpanFinder, batch: Batch) -> dict[str, Tensor]:
        return _totals(self.outputs(model, batch), batch)

    def metrics(self, split: str, totals: Mapping[str, float]) -> dict[str, float]:
        return {f"{split}/loss": totals["nats"] / max(totals["windows"], 1)}

    def evaluate(self, model: nn.Module, split: str, evaluator: Evaluator) -> dict[str, float]:
        """Return the official scores of a split, in percent, and keep the predictions."""
        rows = evaluator.run(model, self.batches(split), self._measured)
        totals = {key: float(sum(row[key].double() for row in rows)) for key in ("nats", "windows")}
        key = self._keys[split]
        search = Search(self._section.candidates, self._section.answer_length)
        self._predictions = key.predictions(_scores(rows), search)
        baselines = self._baselines if split == "test" else {}
        scores = {**scoring.score(key.gold(), self._predictions), **baselines}
        return {
            **self.metrics(split, totals),
            **{f"{split}/{name}": value for name, value in scores.items()},
        }

    def files(self) -> dict[str, Any]:
        """Return the predictions of the last evaluation, as the official evaluator takes them."""
        return {PREDICTIONS: self._predictions}

    def _measured(self, model: Any, batch: Batch) -> dict[str, Tensor]:
        logits_2BT = self.outputs(model, batch)
        # They stay on the device until all are there: to copy each would be to wait for each.
        kept = {"logits": logits_2BT, "real": batch["real"]}
        return {**_totals(logits_2BT, batch), **kept}

    def _settings(self) -> WindowSettings:
        keys = WindowSettings.__dataclass_fields__
        return WindowSettings(**{key: getattr(self._section, key) for key in keys})


def _totals(logits_2BT: Tensor, batch: Batch) -> dict[str, Tensor]:
    """Return the mean nats of the two ends, summed over the windows, and the number of windows."""
    nats = [
        F.cross_entropy(logits_BT, batch[end], reduction="sum", ignore_index=IGNORED)
        for logits_BT, end in zip(logits_2BT, ("start", "end"), strict=True)
    ]
    return {"nats": (nats[0] + nats[1]) / 2, "windows": (batch["start"] != IGNORED).sum()}


def _scores(rows: list[dict[str, Tensor]]) -> Iterator[Scores]:
    starts_NT, ends_NT = torch.cat([row["logits"] for row in rows], 1).cpu().numpy()
    lengths_N = torch.cat([row["real"] for row in rows]).cpu().sum(1).tolist()
    for starts_T, ends_T, length in zip(starts_NT, ends_NT, lengths_N, strict=True):
        yield starts_T[:length], ends_T[:length]
