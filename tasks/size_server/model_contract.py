"""The contract of whole language models, checked when a run is planned.

A model of transformers or of an installed package is code that nobody here has read, around its
attention too.
"""

from typing import Any

import numpy as np
import torch

from models.language_model import LanguageModel
from sweeper.store.errors import invalid_value
from sweeper.store.files import canonical
from tasks.batch import Batch, of_arrays
from tasks.config.sections import RunConfig
from tasks.lm1b.data import expand
from tasks.parse import module_class, module_of
from tasks.text.tokenizer import END, PAD

# `check` skips this model: attention_contract.py checks its attention, and tests cover the rest.
OURS = "decoder"
_ROWS = 16
_SIZES = {"layers", "embedding_size", "heads", "head_size", "feedforward_size"}
_checked: set[str] = set()


def check(run: RunConfig) -> None:
    """Check the model of a config, if it is a language model and not ours.

    Models that differ in sizes only are checked once. Each is checked again once it is trained.

    Raises:
        UserError: an output depends on a later position, another segment or another row; a
            parameter gets no gradient; or the model changes the logits of its softmax layer.
    """
    task: Any = run.task
    same = [run.model.model_dump(exclude=_SIZES), task.model_dump()]
    learns = LanguageModel in module_class(task.name).models
    if not learns or run.model.name == OURS or (kind := canonical(same)) in _checked:
        return
    still = run.model.model_copy(update={"dropout": 0.0})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module: Any = module_of(run.model_copy(update={"model": still})).float().eval()
        with torch.no_grad():
            # Change every parameter. One that is initialised to zero would hide a fault.
            for weight in module.parameters():
                weight.add_(0.1 * torch.randn_like(weight))
            own = task.sequence_length
            for length in {10, 64, own, max(2, own - 1)}:
                module.check_contract(_rows(length, task), "in a fresh model")

    model, batch = module.model, _rows(task.sequence_length, task)
    inputs = [batch[name] for name in ("tokens", "segments", "positions")]
    hidden_BTD, own_BTV = model(*inputs), model.own_logits(*inputs)
    model.loss(hidden_BTD, batch["targets"])[0].backward()
    unused = [name for name, p in model.named_parameters() if p.grad is None]
    if unused:
        expected = f"a gradient for every parameter that is counted, but {unused[0]} receives none"
    elif not torch.allclose(model.logits(hidden_BTD), own_BTV, rtol=1e-5, atol=1e-6):
        expected = "logits that are those of its softmax layer, but it changes them"
    else:
        _checked.add(kind)
        return
    raise invalid_value(*run.model.called, expected, "choose another, or mend its code")


def _rows(length: int, task: Any) -> Batch:
    """Return random rows of two sentences and some padding, as the task has them."""
    drawn = np.random.default_rng(0)
    pieces = (END + 1, task.vocabulary_size)
    targets_BT = drawn.integers(*pieces, (_ROWS, length), np.uint16)
    targets_BT[:, length // 2] = END
    targets_BT[:, length - length // 8 :] = PAD
    return of_arrays(expand(targets_BT, task.joined))
