"""The contract of layers and of whole models: the rows that are tried, and the faults they show.

Shapes: T positions, D embedding_size, C positions that were changed.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

SEGMENTS = (1, 1, 1, 1, 2, 2, 2, 2, 0, 0)  # of a packed row; 0 is padding
# Code that computes in blocks may take another path where a row has whole blocks.
LONG = (*[1] * 40, *[2] * 16, *[0] * 8)
CHANGED_OF_OWN = 3  # positions of a row as long as the run's, which may be long
_LONGEST = 2048  # positions; of longer rows, this many are tried
# By trainer.precision, as a share of the largest output.
ROUNDING = {"bf16-mixed": 1e-2, "32-true": 1e-5, "64-true": 1e-5}


def own_rows(length: int) -> list[tuple[int, ...]]:
    """Return packed rows as long as the run's, and one shorter: one is even, the other odd.

    Each has two segments where both have two positions or more: a rotation changes nothing at the
    first position of a segment.
    """
    rows = []
    for own in (min(length, _LONGEST), min(length, _LONGEST) - 1):
        first = own // 2 if own >= 4 else own
        rows.append((*[1] * first, *[2] * (own - first)))
    return [row for row in rows if len(row) > 1]


def changed_positions(row: Sequence[int], most: int) -> range:
    """Return about `most` positions of a row."""
    return range(0, len(row), max(1, len(row) // most))


def positions_of(segments: Sequence[int]) -> Tensor:
    """Return positions_1T, which count from 0 in each segment."""
    return torch.tensor([[segments[:t].count(s) for t, s in enumerate(segments)]])


def describe_row(segments: Sequence[int]) -> str:
    """Return the segments of a row in words."""
    counts = Counter(segments).items()
    words = ", ".join(f"{n} positions of segment {s}" for s, n in counts)
    return f"{words} (0 is padding)"


@torch.no_grad()
def built_twice(build: Callable[[], nn.Module]) -> tuple[nn.Module, nn.Module]:
    """Return two modules in evaluation; the second has loaded the state of the first."""
    module, anew = build().eval(), build().eval()
    for parameter in module.parameters():  # zeros at the start would hide a fault
        parameter.add_(0.1 * torch.randn_like(parameter))
    anew.load_state_dict(module.state_dict())
    return module, anew


def faults(
    call: Callable[[Any, Tensor], Tensor],
    module: nn.Module,
    anew: nn.Module,
    x: Tensor,
    changed: Sequence[int],
    seen_TT: Tensor,
    relative: float,
    under: str,
) -> Iterator[str]:
    """Yield the ways in which outputs depend on hidden positions, on other rows or on the mode.

    Args:
        call: `call(module, x)` returns y_BTD.
        module: the module, in evaluation and without dropout.
        anew: another one, which has loaded the state of `module`.
        x: a row, and then a row for each of the `changed` positions, in which it differs.
        seen_TT: True where an output (first axis) may depend on a position (last axis).
        relative: the largest difference that counts as rounding, as a share of the largest output.
        under: the words for the row.
    """
    with torch.no_grad():
        y_BTD, alone_BTD = call(module, x), call(module, x[:1])
        trained_BTD = call(module.train(), x)
        module.eval()
        loaded_BTD = call(anew, x)
    rounding = relative * float(y_BTD[0].abs().max())
    moved_CT = (y_BTD[1:] - y_BTD[:1]).abs().amax(-1)
    # Written so that NaN is a fault.
    hidden_CT = ~(moved_CT <= rounding) & ~seen_TT.T[list(changed)]
    pairs = ((changed[row], query) for row, query in hidden_CT.nonzero().tolist())
    # A position of the future says more than one of another segment.
    for position, query in sorted(pairs, key=lambda at: at[0] <= at[1]):
        yield (
            f"outputs that depend only on positions which they may see, but position "
            f"{position} changes the output at position {query} {under}"
        )
    if not torch.allclose(alone_BTD, y_BTD[:1], rtol=1e-3, atol=10 * rounding):
        yield "the outputs of a row not to depend on the other rows of its batch, but they do"
    if not torch.allclose(trained_BTD, y_BTD, rtol=1e-4, atol=rounding):
        yield "equal outputs in training and in evaluation without dropout, but they differ"
    if not torch.allclose(loaded_BTD, y_BTD, rtol=1e-4, atol=rounding):
        yield (
            "equal outputs once it is built anew and has loaded its state_dict, but they differ, "
            "so a checkpoint would not hold all of it"
        )


def unlearned(module: nn.Module, y: Tensor) -> Iterator[str]:
    """Yield the parameters of a module that get no gradient from its outputs `y`."""
    y.mul(torch.randn_like(y)).sum().backward()
    for name, parameter in module.named_parameters():
        if parameter.requires_grad and (
            parameter.grad is None or not parameter.grad.any()
        ):
            yield f"a gradient for every parameter that is counted, but {name} receives none"
