"""Times several models of one shape as one stacked model: `python -m benchmarks.stacked`.

Beside it the same models are stepped one after the other, on the same batches. Before anything is
timed, both have to arrive at the same losses.

Shapes as in models/, with K models first; R rows of all models, N positions of one model's rows, E
outputs of a linear layer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from statistics import median

from benchmarks.measure import Facts, arguments, interleaved, leave, speed_up

if __name__ == "__main__":
    arguments(__doc__)  # --help is answered before torch is imported

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.shapes import SHAPES, SMOKE, Batch, Shape, alone, decoder_loss, step
from models.cross_entropy import IGNORED, linear_cross_entropy
from models.embedding import sinusoids
from models.mask import attention_mask
from models.transformer import Decoder

STACKED = {"demo-d32": Shape(2, 32, 4, 8, 192, 1024, 8, 72), "tiny32": SHAPES["tiny32"]}
COUNTS = (2, 4)
STEPS = {"demo-d32": 20, "tiny32": 2}  # of each model in a round
ALIKE = 3  # steps after which the losses are compared
EPSILON = 1.0e-6  # of a Decoder's LayerNorms


class Stack(nn.Module):
    """Decoders of one shape under one optimizer: every weight has a leading axis of models."""

    def __init__(self, models: Sequence[Decoder], shape: Shape, batches: Sequence[Batch]) -> None:
        super().__init__()
        self._shape = shape
        self._models = len(models)
        weights, _ = torch.func.stack_module_state(list(models))
        self._places = {name: place for place, name in enumerate(weights)}
        self._weights = nn.ParameterList(weights.values())
        offset_K11 = torch.arange(self._models)[:, None, None] * shape.vocabulary_size
        self._tokens_KBT = torch.stack([batch.tokens_BT for batch in batches]) + offset_K11
        self._targets_KBT = torch.stack([batch.targets_BT for batch in batches])
        # Rows of all models are rows of one batch wherever no weight comes in.
        self._segments_RT = torch.cat([batch.segments_BT for batch in batches])
        self._positions_KBT = torch.stack([batch.positions_BT for batch in batches])

    def losses(self) -> Tensor:
        """Return losses_K, each model's on its own batch."""
        mask_R1TT = attention_mask(self._segments_RT, causal=True)
        x_KND = self._embedded()
        for layer in range(self._shape.layers):
            name = f"blocks.{layer}"
            normal_KND = self._norm(f"{name}.attention_norm", x_KND)
            x_KND = x_KND + self._attention(name, normal_KND, mask_R1TT)
            normal_KND = self._norm(f"{name}.feed_forward_norm", x_KND)
            x_KND = x_KND + self._feed_forward(name, normal_KND)
        hidden_KND = self._norm("final_norm", x_KND)
        softmax_KVD, targets_KN = self._weight("embedding.weight"), self._targets_KBT.flatten(1)
        nats = map(linear_cross_entropy, hidden_KND, softmax_KVD, targets_KN)
        return torch.stack(list(nats)) / (targets_KN != IGNORED).sum(1)

    def _embedded(self) -> Tensor:
        size = self._shape.embedding_size
        weight_KVD = self._weight("embedding.weight")
        tokens_KBTD = F.embedding(self._tokens_KBT, weight_KVD.flatten(0, 1)) * math.sqrt(size)
        return (tokens_KBTD + sinusoids(self._positions_KBT, size)).flatten(1, 2)

    def _attention(self, block: str, x_KND: Tensor, mask_R1TT: Tensor) -> Tensor:
        heads, size = self._shape.heads, self._shape.head_size
        qkv_KNE = self._linear(f"{block}.attention.qkv", x_KND)
        qkv_RT3HP = qkv_KNE.view(len(mask_R1TT), -1, 3, heads, size)
        q_RHTP, k_RHTP, v_RHTP = qkv_RT3HP.permute(2, 0, 3, 1, 4).unbind(0)
        context_RHTP = F.scaled_dot_product_attention(q_RHTP, k_RHTP, v_RHTP, attn_mask=mask_R1TT)
        context_KNW = context_RHTP.transpose(1, 2).reshape(self._models, -1, heads * size)
        return self._linear(f"{block}.attention.output", context_KNW)

    def _feed_forward(self, block: str, x_KND: Tensor) -> Tensor:
        hidden_KNF = F.relu(self._linear(f"{block}.feed_forward.expand", x_KND))
        return self._linear(f"{block}.feed_forward.contract", hidden_KNF)

    def _linear(self, name: str, x_KND: Tensor) -> Tensor:
        weight_KDE = self._weight(f"{name}.weight").transpose(1, 2)
        if f"{name}.bias" not in self._places:
            return torch.bmm(x_KND, weight_KDE)
        return torch.baddbmm(self._weight(f"{name}.bias")[:, None], x_KND, weight_KDE)

    def _norm(self, name: str, x_KND: Tensor) -> Tensor:
        weight_K1D, bias_K1D = (self._weight(f"{name}.{of}")[:, None] for of in ("weight", "bias"))
        normal_KND = F.layer_norm(x_KND, x_KND.shape[-1:], eps=EPSILON)
        return torch.addcmul(bias_K1D, normal_KND, weight_K1D)

    def _weight(self, name: str) -> Tensor:
        weight: Tensor = self._weights[self._places[name]]
        return weight


def results(smoke: bool) -> Iterator[Facts]:
    alone()
    for name, shape in (SMOKE if smoke else STACKED).items():
        yield {"shape": name, **measured(shape, STEPS.get(name, 1), 2 if smoke else 9)}


def measured(shape: Shape, steps: int, rounds: int) -> Facts:
    """The tokens per second of all models together, and how much faster stacked ones are."""
    variants: dict[str, Callable[[], None]] = {}
    for count in COUNTS:
        separate, stacked = both(shape, count)
        variants[f"{count} separate"] = repeated(separate, steps)
        variants[f"{count} stacked"] = repeated(stacked, steps)
    times = interleaved(variants, rounds)
    tokens = {variant: int(variant.split()[0]) * steps * shape.tokens for variant in variants}
    return {
        "tokens": shape.tokens,
        "rounds": rounds,
        "tokens_per_second": {v: round(tokens[v] / median(times[v]), 1) for v in variants},
        "speed_up": {
            f"{n} stacked over {n} separate": speed_up(times, f"{n} stacked", f"{n} separate")
            for n in COUNTS
        },
    }


def both(shape: Shape, count: int) -> tuple[Callable[[], None], Callable[[], None]]:
    """Return a step of so many models, and of a stack of them, which were found to agree."""
    models = [shape.decoder() for _ in range(count)]
    batches = [Batch.drawn(shape) for _ in models]
    losses = [decoder_loss(*pair) for pair in zip(models, batches, strict=True)]
    stack = Stack(models, shape, batches)
    steps = [step(*pair) for pair in zip(models, losses, strict=True)]
    stacked = step(stack, lambda: stack.losses().sum())

    def separate() -> None:
        for one in steps:
            one()

    before_K = stack.losses().detach()
    for _ in range(ALIKE):
        separate()
        stacked()
    with torch.no_grad():
        found_K, expected_K = stack.losses(), torch.stack([loss() for loss in losses])
    torch.testing.assert_close(found_K, expected_K, rtol=1e-5, atol=0)
    assert (found_K < before_K).all(), "nothing was learned"
    return separate, stacked


def repeated(function: Callable[[], None], times: int) -> Callable[[], None]:
    def run() -> None:
        for _ in range(times):
            function()

    return run


if __name__ == "__main__":
    leave(results)
