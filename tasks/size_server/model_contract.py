"""The contract of whole language models, checked when a run is planned.

A model of transformers or of an installed package is code that nobody here has read, around its
attention too.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from models.language_model import LanguageModel
from models.mask import attention_mask
from sweeper.store.errors import UserError, invalid_value
from sweeper.store.files import canonical
from tasks.config.sections import RunConfig
from tasks.parse import module_class, module_of
from tasks.size_server.contract import (
    LONG,
    ROUNDING,
    SEGMENTS,
    built_twice,
    changed_positions,
    describe_row,
    faults,
    own_rows,
    positions_of,
    unlearned,
)
from tasks.training.causes import message_of

_SIZES = {"layers", "embedding_size", "heads", "head_size", "feedforward_size"}
_OURS = "decoder"  # its attention has a contract of its own, and tests cover the rest
CHANGED = 8  # positions of a row, each in a row of its own
_checked: set[str] = set()


def check(run: RunConfig) -> None:
    """Check the model of a config, if it is a language model and not ours.

    Models that differ in sizes only are checked once: the task checks every trained model again.

    Raises:
        UserError: the model breaks the contract. An output depends on its own and on earlier
            positions of its segment, and on no other row; every parameter gets a gradient.
    """
    task: Any = run.task
    learns = LanguageModel in module_class(task.name).models
    settings = [run.model.model_dump(exclude=_SIZES), task.model_dump()]
    kind = canonical([*settings, run.trainer.precision])
    if not learns or run.model.name == _OURS or kind in _checked:
        return
    packed = [SEGMENTS, LONG, *own_rows(task.sequence_length)]
    joined = [(1,) * len(row) for row in packed]
    fault = _fault(run, joined if task.joined else packed)
    if fault:
        remedy = "choose another model, or mend its code"
        if not task.joined and _fault(run, joined) is None:
            remedy = "choose another model, or give task.joined=true: a row is then one segment"
        raise invalid_value(*run.model.called, fault, remedy)
    _checked.add(kind)


def _fault(run: RunConfig, rows: Iterable[Sequence[int]]) -> str | None:
    """Return the first fault of the model on rows, each given as its segments; None without one."""
    half = run.trainer.precision == "bf16-mixed"
    section = run.model.model_copy(update={"dropout": 0.0})
    still = run.model_copy(update={"model": section})
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=half)
    with torch.random.fork_rng(devices=[]), torch.device("cpu"), autocast:
        torch.manual_seed(0)
        try:
            pair = built_twice(lambda: module_of(still).model.float())
            found = (
                _faults(*pair, row, ROUNDING[run.trainer.precision]) for row in rows
            )
            return next(itertools.chain.from_iterable(found), None)
        except UserError:
            raise
        except Exception as error:  # anybody's code runs here
            words = message_of(error)
            return f"a model that is called as models/language_model.py says, but it raised {words}"


def _faults(
    model: Any, anew: Any, row: Sequence[int], relative: float
) -> Iterator[str]:
    """Yield the faults of a model, which has a copy `anew`, on one row."""
    changed = changed_positions(row, CHANGED)
    vocabulary = len(model.softmax_layer()[0])
    tokens_BT = torch.randint(vocabulary, (1, len(row))).repeat(1 + len(changed), 1)
    for other, t in enumerate(changed, 1):
        tokens_BT[other, t] += torch.randint(1, vocabulary, ())
    tokens_BT %= vocabulary
    segments_1T = torch.tensor([row])
    real_1T = segments_1T > 0
    positions_1T = positions_of(row) * real_1T

    def inputs(x_BT: Tensor) -> list[Tensor]:
        return [x_BT, *(one.expand_as(x_BT) for one in (segments_1T, positions_1T))]

    def call(module: nn.Module, x_BT: Tensor) -> Tensor:
        hidden_BTD: Tensor = module(*inputs(x_BT))
        # Nothing is predicted at padding, which may depend on anything.
        return hidden_BTD * real_1T[..., None]

    seen_TT = attention_mask(segments_1T, causal=True)[0, 0]
    under = f"in a row of {describe_row(row)}"
    yield from faults(call, model, anew, tokens_BT, changed, seen_TT, relative, under)

    hidden_BTD = call(model, tokens_BT)
    with torch.no_grad():
        own_BTV, ours_BTV = (
            model.own_logits(*inputs(tokens_BT)),
            model.logits(hidden_BTD),
        )
    rounding = relative * float(ours_BTV.abs().max())
    differs = real_1T[..., None] & ~((own_BTV - ours_BTV).abs() <= rounding)
    if differs.any():
        yield "logits that its softmax layer makes of its hidden states, but its own differ"
    yield from unlearned(model, hidden_BTD)
