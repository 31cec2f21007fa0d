"""The check of a run's language model against its contract, when the run is planned.

By the contract (tasks/lm1b/contract.py), no output depends on later tokens or on other segments. A
model of Hugging Face's `transformers` or of a plugin may also break it outside its attention, so
the whole model is checked.
"""

import torch

from models.language_model import LanguageModel
from sweeper.store.files import canonical
from tasks.config.sections import RunConfig
from tasks.lm1b.contract import check_fresh
from tasks.parse import module_class, module_of

# The architecture that `check` skips. attention_contract.py checks the attention of this model, and
# tests cover the rest.
OURS = "decoder"
_SIZES = {"layers", "embedding_size", "heads", "head_size", "feedforward_size"}
_checked: set[str] = set()


def check(run: RunConfig) -> None:
    """Check the model of a run, if it is a language model other than Headroom's own decoder.

    If models differ only in size, check only the first of them. Each model is checked again after
    its training.

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
