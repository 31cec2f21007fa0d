"""The contract of language models, checked when a run is planned.

A model of Hugging Face's `transformers` or of a plugin may break the contract outside its attention
too, so the whole model is checked.
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

# The name of the model that `check` skips. attention_contract.py checks its attention, and tests
# cover the rest.
OURS = "decoder"
_ROWS = 16
_SIZES = {"layers", "embedding_size", "heads", "head_size", "feedforward_size"}
_checked: set[str] = set()


def check(run: RunConfig) -> None:
    """Check the model of a config, if it is a language model other than Headroom's own.

    Of models that differ only in size, the first is checked. Each model is checked again after its
    training.

    Raises:
        UserError: an output depends on a later position, another segment or another row; a
            parameter receives no gradient; or the model's logits are not those of its softmax
            layer alone.
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
        expected = f"a gradient for every parameter, but {unused[0]} receives none"
    elif not torch.allclose(model.logits(hidden_BTD), own_BTV, rtol=1e-5, atol=1e-6):
        expected = "a model that returns its softmax layer's logits unchanged, but it changes them"
    else:
        _checked.add(kind)
        return
    raise invalid_value(
        *run.model.called, expected, "choose another model, or fix its code"
    )


def _rows(length: int, task: Any) -> Batch:
    """Return random rows in the task's format: two sentences and some padding."""
    drawn = np.random.default_rng(0)
    pieces = (END + 1, task.vocabulary_size)
    targets_BT = drawn.integers(*pieces, (_ROWS, length), np.uint16)
    targets_BT[:, length // 2] = END
    targets_BT[:, length - length // 8 :] = PAD
    return of_arrays(expand(targets_BT, task.joined))
