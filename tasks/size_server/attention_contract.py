"""What a block relies on, asked of an attention variant when a run of it is planned.

Otherwise a variant that fails the contract is found out in the first step, or, where only rank and
entropy of its heads are concerned, after the last.
"""

from __future__ import annotations

import torch
from torch import nn

from models.attention_map import head_measures
from models.head_sizes import distinct_sizes
from sweeper.store.errors import invalid_value
from sweeper.store.files import canonical
from tasks.config.architecture import KEY, Architecture

_T = 3
_kept: set[str] = set()


def check(section: Architecture) -> None:
    """Build one layer on the meta device and call it; a variant and its options are asked once.

    Rank and entropy of heads are measured of what calls scaled_dot_product_attention and of nothing
    else, so whatever is called is measured here too.

    Raises:
        UserError: it cannot be built or called, returns another shape, or cannot be measured.
    """
    asked = canonical(section.attention.model_dump())
    if asked in _kept:
        return
    name, head_size = section.attention.name, distinct_sizes(section.resolved_head_size)[0]
    sizes = (section.embedding_size, section.heads, head_size)
    try:
        with torch.device("meta"):
            layer = section.attention.builder()(*sizes, bias=False, dropout=0.0)
            found = _called(layer.eval(), section.embedding_size)
    except Exception as error:  # what is asked here is anyone's code
        said = f"{type(error).__name__}: {' '.join(str(error).split())}"
        expected = "a module that is built and called on the meta device as CONTRIBUTING.md says"
        raise invalid_value(
            KEY, name, f"{expected}, but it raised {said}", "mend its code"
        ) from error
    if found != (1, _T, section.embedding_size):
        expected = f"to return x_BTD, (1, {_T}, {section.embedding_size}) as it was given"
        raise invalid_value(KEY, name, f"{expected}, but it returned {found}", "mend its forward")
    _kept.add(asked)


def _called(layer: nn.Module, embedding_size: int) -> tuple[int, ...]:
    """The shape that a layer returns of x_BTD under a mask; its heads are measured meanwhile."""
    returned = []
    mask_B1TT = torch.ones(1, 1, _T, _T, dtype=torch.bool).tril()
    head_measures(lambda: returned.append(layer(torch.zeros(1, _T, embedding_size), mask_B1TT)))
    return tuple(returned[0].shape)
