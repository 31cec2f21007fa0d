"""Fine-tuning on SQuAD v1.1: where in a paragraph is the answer to a question?

Questions are read from the published files. The encoder reads a question together with one window
of its paragraph at a time.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from models.bert_heads import SpanFinder
from models.cross_entropy import IGNORED
from sweeper.store.errors import UserError
from sweeper.store.files import make_directory
from tasks import ranks
from tasks.batch import Batch
from tasks.config.schema import Problem, whole
from tasks.fine_tuning import dataset as strict_json
from tasks.fine_tuning.bag_of_words import guessed_answer
from tasks.fine_tuning.dataset import DataSet, Malformed
from tasks.fine_tuning.shared import (
    SPECIAL_TOKENS,
    ExampleData,
    FineTuning,
    FineTuningSection,
    encodings,
    marks_of,
    write,
)
from tasks.squad import scoring
from tasks.squad.answer_key import AnswerKey, Question, covered, windows, write_key
from tasks.synthetic import samples
from tasks.text.source import LINE_LIMIT, REPLACEMENT, raw_lines_of_file

if TYPE_CHECKING:
    from tokenizers import Tokenizer


class SQuAD(DataSet[Question]):
    """The reader of SQuAD v1.1 and of data sets in its format.

    SQuADShifts can replace the training set. XQuAD, a part of the dev set, can replace the dev set.
    """

    title = "SQuAD v1.1"
    train = re.compile(r"train([._-].*)?\.jsonl?|.+_v1\.0\.json")
    test = re.compile(r"dev([._-].*)?\.jsonl?|xquad\.en\.json")
    expected = "train*.json and dev*.json files (or SQuADShifts' *_v1.0.json and xquad.en.json)"
    suffixes = (".json", ".jsonl")
    columns = ("id", "question", "context", "answers")
    sample = samples.SQUAD
    hub_test = "validation"

    def read_file(self, path: Path) -> Iterator[tuple[str, Question | Malformed]]:
        """Yield pairs (place in the file, question or reason why it is malformed).

        The file has the format of SQuAD, or one question per line, as `datasets` exports it.

        Raises:
            UserError: the file has neither format.
        """
        if _has_lines(path):
            for number, raw in enumerate(raw_lines_of_file(path), 1):
                row = strict_json.row_of(raw)
                broken = isinstance(row, Malformed)
                yield str(number), row if broken else self.example_of(row)
            return

        articles = _list_of(strict_json.load_file(path), "data")
        if articles is None:
            raise UserError(
                f'{path} is not a SQuAD v1.1 file: expected a list under "data"; name another file.'
            )

        for a, article in enumerate(articles):
            paragraphs = _list_of(article, "paragraphs")
            if paragraphs is None:
                yield f"data[{a}]", Malformed("an article without paragraphs")
            for p, paragraph in enumerate(paragraphs or ()):
                place = f"data[{a}].paragraphs[{p}]"
                rows = _list_of(paragraph, "qas")
                if rows is None:
                    yield place, Malformed("a paragraph without questions")
                for q, row in enumerate(rows or ()):
                    found = question_of(row, paragraph.get("context"))
                    yield f"{place}.qas[{q}]", found

    def example_of(self, row: Any) -> Question | Malformed:
        if not isinstance(row, Mapping):
            return Malformed("not a question")
        answers = row.get("answers")
        if isinstance(answers, Mapping):
            texts, starts = _list_of(answers, "text"), _list_of(answers, "answer_start")
            if texts and starts and len(texts) == len(starts):
                pairs = zip(texts, starts, strict=True)
                answers = [
                    {"text": text, "answer_start": start} for text, start in pairs
                ]
        return question_of({**row, "answers": answers}, row.get("context"))

    def trainable(self, example: Question) -> Question | Malformed:
        found = example.start >= 0
        return example if found else Malformed("no answer occurs in the context")

    def group(self, example: Question) -> str:
        return example.context


def _list_of(value: Any, key: str) -> list[Any] | None:
    found = value.get(key) if isinstance(value, Mapping) else None
    return found if isinstance(found, list) else None


def _has_lines(path: Path) -> bool:
    """Return whether the first line of a file is a JSON object with a context."""
    with suppress(OSError, ValueError), path.open("rb") as file:
        first = strict_json.load(strict_json.decoded(file.readline(LINE_LIMIT)))
        return isinstance(first, Mapping) and "context" in first
    return False


def question_of(row: Any, context: Any) -> Question | Malformed:
    """Return the question in an entry of "qas", or the reason why it is malformed.

    Args:
        row: the entry.
        context: the paragraph that the question is about.
    """
    if not isinstance(row, Mapping):
        return Malformed("not a question")
    identity, question, answers = (
        row.get(name) for name in ("id", "question", "answers")
    )
    if not isinstance(identity, str) or not identity:
        return Malformed("no id")
    if not isinstance(context, str) or not isinstance(question, str):
        return Malformed("a text is missing")

    mended = strict_json.mended(context, question)
    context = strict_json.printable(context)
    question = strict_json.printable(question).strip()
    if not context.strip() or not question:
        return Malformed("empty text")
    if max(len(context), len(question)) > LINE_LIMIT:
        return Malformed("too long")

    entries = answers if isinstance(answers, list) else []
    maps = (a for a in entries if isinstance(a, Mapping))
    given = [a for a in maps if isinstance(a.get("text"), str)]
    if not given:
        return Malformed("no answer")
    texts = tuple(strict_json.printable(a["text"]) for a in given)

    start, text, found = located_answer(
        context, texts, [a.get("answer_start") for a in given]
    )
    return Question(
        question, context, texts, start, text, id=identity, mended=mended + found
    )


def located_answer(
    context: str, texts: Sequence[str], starts: Sequence[Any]
) -> tuple[int, str, tuple[str, ...]]:
    """Choose an answer that occurs in the context. Return its start, its text, and repair notes.

    Choose the first answer that is at its stated start. If there is none, choose the first that
    occurs exactly once in the context, as whole words. If there is none, return -1 as the start.
    """
    for text, start in zip(texts, starts, strict=True):
        bare = text.strip()
        is_position = type(start) is int and start >= 0
        if _visible(bare) and is_position and context.startswith(text, start):
            return start + text.index(bare), bare, ()
    for bare in (text.strip() for text in texts):
        first = context.find(bare) if _visible(bare) else -1
        if first >= 0 and context.find(bare, first + 1) < 0:
            end = first + len(bare)
            before, after = context[max(first - 1, 0) : first], context[end : end + 1]
            # Reject a match within a longer word.
            edges = (before, bare[0]), (bare[-1], after)
            if not any(left.isalnum() and right.isalnum() for left, right in edges):
                return first, bare, ("answer found elsewhere",)
    return -1, "", ()


def _visible(text: str) -> bool:
    """Return whether the text has a character that a tokenizer keeps."""
    return any(unicodedata.category(c)[0] in "LNPS" and c != REPLACEMENT for c in text)


# The target of a window if the paragraph has no answer. The loss ignores it.
NOWHERE = -100
# The target of a window if the answer is in another window: the position of [CLS], as in BERT.
OUTSIDE = 0


class QuestionsSection(FineTuningSection):
    """The keys of conf/task/squad.yaml."""

    question_length: Annotated[int, whole(1, 65_536, 64)]
    stride: Annotated[int, whole(1, 65_536, 128)]
    candidates: Annotated[int, whole(1, 1024, 20)]
    answer_length: Annotated[int, whole(1, 65_536, 30)]

    def problems(self, path: str = "") -> Iterator[Problem]:
        yield from super().problems(path)
        room = self.sequence_length - SPECIAL_TOKENS - self.question_length
        if room < 1:
            most = self.sequence_length - SPECIAL_TOKENS - 1
            length = f"{path}.sequence_length={self.sequence_length}"
            expected = f"at most {most}, so that {length} leaves room for the paragraph"
            remedy = f"set {path}.question_length={max(most // 2, 1)}"
            yield Problem(
                f"{path}.question_length", self.question_length, expected, remedy
            )


class Windows(ExampleData):
    """Batches of rows, each with a question and a window of its paragraph.

    The targets `start` and `end`, (B,), are the positions of the answer's first and last piece.
    They are OUTSIDE if the answer is in another window, and NOWHERE if the paragraph has none.
    """

    section: QuestionsSection
    kind = "squad"
    published = SQuAD()
    columns = ("start", "end")
    shaping = (*ExampleData.shaping, "question_length", "stride")

    def open(self, folder: Path) -> dict[str, Any]:
        facts = super().open(folder)
        measured = ("validation", "test")
        self.keys = {
            split: AnswerKey(folder / split, self.splits[split]) for split in measured
        }
        counts = {
            f"{split}_questions": rows.about["questions"]
            for split, rows in self.splits.items()
        }
        return {**facts, **counts}

    def write_split(
        self,
        folder: Path,
        tokenizer: Tokenizer,
        examples: list[Question],
        about: Mapping[str, Any],
    ) -> None:
        make_directory(folder)
        contexts = list(dict.fromkeys(question.context for question in examples))
        paragraphs = {
            context: (encoding.ids, np.array(encoding.offsets, np.int64).reshape(-1, 2))
            for context, encoding in zip(
                contexts, encodings(tokenizer, contexts), strict=True
            )
        }
        asked = encodings(tokenizer, [question.question for question in examples])

        rows: list[list[int]] = []
        cls, sep = marks_of(tokenizer)
        columns: dict[str, list[int]] = {
            name: []
            for name in ("seconds", "question", "first", "length", "start", "end")
        }

        pairs = zip(examples, asked, strict=True)
        for number, (question, encoding) in enumerate(pairs):
            pieces, offsets = paragraphs[question.context]
            ids = encoding.ids[: self.section.question_length]
            answer = None
            if question.start >= 0:
                stop = question.start + len(question.text)
                answer = covered(offsets, question.start, stop)

            room = self.section.sequence_length - SPECIAL_TOKENS - len(ids)
            place = 2 + len(ids)  # the position of the window's first piece
            for first, length in windows(len(pieces), room, self.section.stride):
                rows.append([cls, *ids, sep, *pieces[first : first + length], sep])
                start = end = NOWHERE
                if answer is not None:
                    inside = first <= answer[0] and answer[1] < first + length
                    start, end = (
                        place + piece - first if inside else OUTSIDE for piece in answer
                    )
                values = (place, number, first, length, start, end)
                for name, value in zip(columns, values, strict=True):
                    columns[name].append(value)

        write_key(folder, examples, [(text, paragraphs[text][1]) for text in contexts])
        write(folder, rows, columns, {"questions": len(examples), **about})

    def measured_baselines(
        self, splits: Mapping[str, list[Question]]
    ) -> dict[str, float]:
        questions = splits["test"]
        guesses = {q.id: guessed_answer(q.question, q.context) for q in questions}
        scores = scoring.score(((q.id, q.answers) for q in questions), guesses)
        return {f"bag_of_words_{name}": value for name, value in scores.items()}


PREDICTIONS = "predictions.json"


class QuestionAnswering(FineTuning):
    """A task: find the first and the last piece of the answer in a window of the paragraph."""

    Section = QuestionsSection
    section: QuestionsSection
    Data = Windows
    data: Windows
    model: SpanFinder
    labels = ("start", "end")
    measured = ("test/loss", "test/exact_match", "test/f1")
    _scored: list[Batch]  # the logits and the attention mask of each batch of a split
    _predictions: dict[str, str]  # by question id, from the last evaluation

    def build(self) -> SpanFinder:
        return SpanFinder(self.encoder())

    def forward(self, batch: Batch) -> Tensor:
        """Return the logits of the answer's first and last piece, (2, B, T). Padding has -inf."""
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
        # If no window has an answer, there is no mean.
        if not sums["windows"]:
            return {}
        return {f"{split}/loss": sums["nats"] / sums["windows"]}

    def on_validation_epoch_start(self) -> None:
        super().on_validation_epoch_start()
        self._scored = []

    def measure(self, split: str) -> dict[str, float]:
        """Return the metrics of a split. exact_match and f1 are in percent.

        Keep the predictions, which `files` returns.
        """
        losses = super().measure(split)
        batches, self._scored = self._scored, []
        if ranks.world() > 1:
            own = [
                {key: tensor.cpu() for key, tensor in batch.items()}
                for batch in batches
            ]
            batches = ranks.gathered(own)

        scores_N = []
        for batch in batches:
            starts_BT, ends_BT = batch["logits"].cpu().numpy()
            lengths_B = batch["attention_mask"].cpu().sum(1).tolist()
            windows = zip(starts_BT, ends_BT, lengths_B, strict=True)
            scores_N += [
                (starts_T[:end], ends_T[:end]) for starts_T, ends_T, end in windows
            ]

        key, section = self.data.keys[split], self.section
        self._predictions = key.predictions(
            scores_N, section.candidates, section.answer_length
        )
        baselines = self.data.baselines if split == "test" else {}
        scores = {**scoring.score(key.gold(), self._predictions), **baselines}
        return {
            **losses,
            **{f"{split}/{name}": value for name, value in scores.items()},
        }

    def files(self) -> dict[str, Any]:
        """Return the predictions of the last evaluation, in the official evaluator's format."""
        return {PREDICTIONS: self._predictions}


def _nats(logits_2BT: Tensor, batch: Batch) -> Tensor:
    """Return the cross-entropy in nats: the mean of start and end, summed over the windows."""
    starts, ends = (
        F.cross_entropy(logits_BT, batch[end], reduction="sum", ignore_index=IGNORED)
        for logits_BT, end in zip(logits_2BT, ("start", "end"), strict=True)
    )
    return (starts + ends) / 2
