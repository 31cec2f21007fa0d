"""Language modelling on packed sentences: the paper's LM1B experiments (section 4.1).

In: batches of packed rows (data.py). Out: the loss of a step in nats, and the perplexities of a
split. Next: models/transformer.py, or another model with the interface of models/language_model.py.
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

# Measure the rank and entropy of heads on this many test rows. They hardly vary between rows.
MEASURED_ROWS = 4
# Accept differences up to this share of the largest output. A kernel may add numbers in another
# order, and bfloat16 has only two or three digits.
ROUNDING = {"bf16-mixed": 1e-2, "32-true": 1e-4, "64-true": 1e-4}


class LanguageModelSection(TextSection):
    """The keys of conf/task/lm1b.yaml."""

    vocabulary_size: Annotated[int, whole(SMALLEST_BPE, LARGEST_VOCABULARY, 32_768)]
    tokenizer_lines: Annotated[int, whole(1, 10**9, 1_000_000)]
    # The default is for records of versions without this key.
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
    """A language model that predicts each piece of a sentence, and its end, from earlier pieces."""

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
    # For each layer, the rank and the entropy of each head.
    _layers: Sequence[dict[str, list[float]]] = ()

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
        # Count words and sentence ends, as tensor2tensor does. Models with different tokenizers are
        # comparable in this metric. It can be infinite for text without spaces, with few words.
        per_word = _exponential(nats / (about["words"] + about["sentences"]))
        if math.isfinite(per_word):
            found[f"{split}/perplexity_per_word"] = per_word
        # Data that older versions prepared lack the number of bytes.
        if "bytes" in about:
            found[f"{split}/bits_per_byte"] = nats / math.log(2) / about["bytes"]
        return found

    def measure(self, split: str) -> dict[str, float]:
        found = super().measure(split)
        if split != "test":
            return found
        heads = {}
        # A diverged model needs no check, because its loss shows that it diverged.
        if all(map(math.isfinite, found.values())):
            first = next(iter(self.data.batches("test")))
            self.check_contract(first, "in the trained model")
            heads = self._measure_heads()
        return found | ngrams.perplexities(self.data, self.config.trainer.steps) | heads

    def check_contract(self, batch: Batch, where: str) -> None:
        """Raise UserError if an output depends on later tokens, another segment or another row.

        The size server has checked the attention variant with untrained layers on random inputs.
        This check also finds variants that look ahead only after training, or only on text. In each
        row, keep the tokens of one segment up to a random position, and replace all others by those
        of another row. The outputs at the kept tokens must not change.

        Args:
            where: what the message calls this model, such as "in the trained model".
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
        # Also shift along the row, so that a batch of one row gets other tokens.
        other_BT = tokens_BT.roll((1, 1), (0, 1))

        y_BTD = self._hidden(batch)
        changed = {**batch, "tokens": torch.where(replaced_BT, other_BT, tokens_BT)}
        # Ignore padding, where the model predicts nothing.
        ignored_BT = replaced_BT | (batch["segments"] == 0)
        moved_BT = (
            (self._hidden(changed) - y_BTD).abs().amax(-1).masked_fill(ignored_BT, 0)
        )
        rounding = ROUNDING[self.config.trainer.precision] * y_BTD.abs().max()
        # A comparison with NaN is False, so an output of NaN fails the check.
        if not (moved_BT <= rounding).all():
            expected = (
                "outputs that depend on earlier tokens of their own segment only, but "
                f"{where} other tokens change them"
            )
            remedy = "mend its code, or choose another"
            if not self.section.joined:
                remedy += (
                    "; if it cannot keep packed sentences apart, set task.joined=true"
                )
            raise invalid_value(*self.config.model.called, expected, remedy)

    def _measure_heads(self) -> dict[str, float]:
        """Return the mean rank and entropy of the heads on a few rows of the test split."""
        few = np.arange(min(MEASURED_ROWS, len(self.data.splits["test"])))
        batch = moved(self.data.take("test", few), self.device)
        with self.autocast():
            measures = head_measures(lambda: self(batch), batch["segments"] > 0)
        # Only variants that use scaled_dot_product_attention are measured.
        if not measures:
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
