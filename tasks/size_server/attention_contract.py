"""The contract of attention variants, checked when a run is planned.

Without the check a broken variant fails in the first step, or, if only rank and entropy of its
heads are wrong, after the last.
"""

from __future__ import annotations

import torch

from models.attention_map import head_measures
from models.head_sizes import distinct_sizes
from sweeper.store.errors import invalid_value
from sweeper.store.files import canonical
from tasks.config.architecture import KEY, Architecture

_T = 3
_checked: set[str] = set()


def check(section: Architecture) -> None:
    """Build one layer on the meta device and call it, once for each variant and its options.

    Rank and entropy of heads are measured too, as they are after training.

    Raises:
        UserError: it cannot be built or called, returns another shape, or cannot be measured.
    """
    asked = canonical(section.attention.model_dump())
    if asked in _checked:
        return
    name, head_size = section.attention.name, distinct_sizes(section.resolved_head_size)[0]
    sizes = (section.embedding_size, section.heads, head_size)
    try:
        with torch.device("meta"):
            layer = section.attention.builder()(*sizes, bias=False, dropout=0.0)
            mask_B1TT = torch.ones(1, 1, _T, _T, dtype=torch.bool).tril()
            x_BTD, returned = torch.zeros(1, _T, section.embedding_size), []
            layer.eval()
            head_measures(lambda: returned.append(layer(x_BTD, mask_B1TT)))
            found = tuple(returned[0].shape)
    except Exception as error:  # anybody's code runs here
        said = f"{type(error).__name__}: {' '.join(str(error).split())}"
        expected = "a module that is built and called on the meta device as CONTRIBUTING.md says"
        raise invalid_value(
            KEY, name, f"{expected}, but it raised {said}", "mend its code"
        ) from error
    if found != (1, _T, section.embedding_size):
        expected = f"to return x_BTD, (1, {_T}, {section.embedding_size}) as it was given"
        raise invalid_value(KEY, name, f"{expected}, but it returned {found}", "mend its forward")
    _checked.add(asked)
