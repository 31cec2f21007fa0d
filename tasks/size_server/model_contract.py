"""The check of language models when a run is planned.

A model of Hugging Face's `transformers` or of a plugin may break the contract of language models
outside its attention too, so the whole model is checked.
"""

import torch

from models.language_model import LanguageModel
from sweeper.store.files import canonical
from tasks.config.sections import RunConfig
from tasks.lm1b.contract import check_fresh
from tasks.parse import module_class, module_of

# The name of the model that `check` skips. attention_contract.py checks its attention, and tests
# cover the rest.
OURS = "decoder"
_SIZES = {"layers", "embedding_size", "heads", "head_size", "feedforward_size"}
_checked: set[str] = set()


def check(run: RunConfig) -> None:
    """Check the model of a config, if it is a language model other than Headroom's own.

    Of several models that differ only in size, only the first is checked here. Every model is
    checked again after its training.

    Raises:
        UserError: the model breaks the contract (see `check_fresh`).
    """
    kind = canonical([run.model.model_dump(exclude=_SIZES), run.task.model_dump()])
    learns = LanguageModel in module_class(run.task.name).models
    if not learns or run.model.name == OURS or kind in _checked:
        return
    still = run.model.model_copy(update={"dropout": 0.0})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        check_fresh(module_of(run.model_copy(update={"model": still})).float().eval())
    _checked.add(kind)
