"""Language modelling on packed sentences: the paper's LM1B experiments (section 4.1).

In: batches of packed rows (data.py). Out: nats of a step, perplexities of a split. On the road: the
model is models/transformer.py, or any other models/language_model.py.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from models.attention_map import head_measures
from models.cross_entropy import IGNORED
from models.head_sizes import heads_by_layer
from models.language_model import LanguageModel as Model
from sweeper.store.errors import invalid_value
from sweeper.store.files import with_checksum
from tasks.batch import Batch, moved
from tasks.config.schema import Problem, given, whole
from tasks.config.sections import TextSection
from tasks.lm1b import ngrams
from tasks.lm1b.data import PackedText
from tasks.module import TaskModule
from tasks.seeds import permutation
from tasks.text.tokenizer import END, LARGEST_VOCABULARY, PAD, SMALLEST_BPE

# Of the test split, for the rank and entropy of heads: they hardly vary.
MEASURED_ROWS = 4
# Of the largest output. A kernel may add up in another order, in bfloat16 with two or three digits.
ROUNDING = {"bf16-mixed": 1e-2, "32-true": 1e-4, "64-true": 1e-4}


class LanguageModelSection(TextSection):
    """The keys of conf/task/lm1b.yaml."""

    vocabulary_size: Annotated[int, whole(SMALLEST_BPE, LARGEST_VOCABULARY, 32_768)]
    tokenizer_lines: Annotated[int, whole(1, 10**9, 1_000_000)]
    # Records from before the key.
    joined: Annotated[bool, given("true or false", False)] = False
    # The plan sets these keys of a run that starts from a published model: the name of the prepared
    # data with its tokenizer, the ids before and after a sentence, and its sliding window.
    tokenizer: str | None = None
    marks: list[int] = Field(default=[PAD, END])
    longest: int | None = None

    def problems(self, path: str = "") -> Iterator[Problem]:
        yield from super().problems(path)
        length, most = self.sequence_length, self.longest
        if most and length > most:
            expected = f"at most {most}, the sliding window of the published model"
            remedy = f"set {path}.sequence_length={most}"
            yield Problem(f"{path}.sequence_length", length, expected, remedy)


class LanguageModel(TaskModule):
    """Predicts every piece of every sentence, its end included, from the pieces before it."""

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
    _layers: Sequence[dict[str, list[float]]] = ()  # rank and entropy of each head

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
        # Per word and end of sentence, as tensor2tensor counts them: independent of the pieces.
        per_word = _exponential(nats / (about["words"] + about["sentences"]))
        if math.isfinite(
            per_word
        ):  # a line of a script without spaces has hardly any words
            found[f"{split}/perplexity_per_word"] = per_word
        if "bytes" in about:  # data prepared by older versions lack it
            found[f"{split}/bits_per_byte"] = nats / math.log(2) / about["bytes"]
        return found

    def measure(self, split: str) -> dict[str, float]:
        found = super().measure(split)
        if split != "test":
            return found
        heads = {}
        if all(
            map(math.isfinite, found.values())
        ):  # else it diverged, and its loss says so
            first = next(iter(self.data.batches("test")))
            self.check_contract(first, "in the trained model")
            heads = self._measure_heads()
        return found | ngrams.perplexities(self.data, self.config.trainer.steps) | heads

    def check_contract(self, batch: Batch, where: str) -> None:
        """Raise UserError if an output depends on later tokens, another segment or another row.

        The contract of attention variants tries fresh layers on noise. A variant may look ahead
        only in trained models or in real rows, so the first batch of the test split is tried too.
        In each row, all tokens but those up to a random position of its segment are replaced by
        those of another row.

        Args:
            where: the words for this model.
        """
        rows, length = batch["tokens"].shape
        kept = permutation(length - 1, 0, "kept positions")[
            np.arange(rows) % (length - 1)
        ]
        last_B1, segments_BT = torch.from_numpy(kept)[:, None], batch["segments"]
        apart_BT = segments_BT != segments_BT.gather(1, last_B1)
        replaced = apart_BT | (torch.arange(length) > last_B1)
        batch = moved({**batch, "replaced": replaced}, self.device)
        tokens_BT, replaced_BT = batch["tokens"], batch["replaced"]
        other_BT = tokens_BT.roll(
            (1, 1), (0, 1)
        )  # a single row is replaced by itself, shifted

        y_BTD = self._hidden(batch)
        changed = {**batch, "tokens": torch.where(replaced_BT, other_BT, tokens_BT)}
        # Nothing is predicted at padding.
        ignored_BT = replaced_BT | (batch["segments"] == 0)
        moved_BT = (
            (self._hidden(changed) - y_BTD).abs().amax(-1).masked_fill(ignored_BT, 0)
        )
        rounding = ROUNDING[self.config.trainer.precision] * y_BTD.abs().max()
        if not (moved_BT <= rounding).all():  # NaN is a fault, too
            expected = (
                f"outputs that depend on earlier tokens of their own segment only, but {where} "
                "other tokens change them"
            )
            remedy = "mend its code, or choose another"
            if not self.section.joined:
                remedy += (
                    "; if it cannot keep packed sentences apart, give task.joined=true"
                )
            raise invalid_value(*self.config.model.called, expected, remedy)

    def _measure_heads(self) -> dict[str, float]:
        """Return the mean rank and entropy of the heads on a few rows of the test split."""
        few = np.arange(min(MEASURED_ROWS, len(self.data.splits["test"])))
        batch = moved(self.data.take("test", few), self.device)
        with self.autocast():
            measures = head_measures(lambda: self(batch), batch["segments"] > 0)
        if not measures:  # the variant weighs positions in another way
            return {}
        model: Any = self.config.model
        layers = getattr(model, "layers", len(measures))
        sizes = (layers, model.heads, model.resolved_head_size)
        ranks, entropies = (
            [of.rank_H for of in measures],
            [of.entropy_H for of in measures],
        )
        by_layer = zip(
            heads_by_layer(ranks, *sizes),
            heads_by_layer(entropies, *sizes),
            strict=True,
        )
        self._layers = [
            {"rank": rank_H.tolist(), "entropy": entropy_H.tolist()}
            for rank_H, entropy_H in by_layer
        ]
        return {
            "test/attention_rank": float(torch.cat(ranks).mean()),
            "test/attention_entropy": float(torch.cat(entropies).mean()),
        }

    def files(self) -> dict[str, Any]:
        found = with_checksum({"layers": self._layers})
        return {"attention.json": found} if self._layers else {}

    def _hidden(self, batch: Batch) -> Tensor:
        return self.model(batch["tokens"], batch["segments"], batch["positions"])


def _exponential(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf
