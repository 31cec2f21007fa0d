"""The contract of language models: an output may not depend on later tokens or other segments.

When a run is planned, `check_fresh` checks an untrained model on random rows, unless the model is
Headroom's own. After training, `check_outputs` checks every model on rows of text, because a model
may break the contract only after training, or only on text.
"""

import numpy as np
import torch
from torch import Tensor

from sweeper.store.errors import invalid_value
from tasks.batch import Batch, moved, of_arrays
from tasks.lm1b.data import expand
from tasks.module import TaskModule
from tasks.seeds import permutation
from tasks.text.tokenizer import END, PAD

# For each trainer.precision, accept differences up to this share of the largest output. A kernel
# may add numbers in another order, and bfloat16 has only two or three digits.
ROUNDING = {"bf16-mixed": 1e-2, "32-true": 1e-4, "64-true": 1e-4}
ROWS = 16  # the number of random rows for an untrained model


def check_outputs(module: TaskModule, batch: Batch, model: str) -> None:
    """Raise UserError if an output depends on later tokens, another segment or another row.

    In each row, choose a random position. Keep the tokens of its segment up to this position, and
    replace all other tokens by tokens of another row. The outputs at the kept tokens must not
    change.

    Args:
        model: the words for the model in the message, such as "the trained model".
    """
    rows, length = batch["tokens"].shape
    order = permutation(length - 1, 0, "kept positions")
    last_B1 = torch.from_numpy(order[np.arange(rows) % (length - 1)])[:, None]
    segments_BT = batch["segments"]
    own_BT = segments_BT == segments_BT.gather(1, last_B1)
    kept_BT = own_BT & (torch.arange(length) <= last_B1)

    batch = moved({**batch, "kept": kept_BT}, module.device)
    tokens_BT, kept_BT = batch["tokens"], batch["kept"]
    # Shift the tokens along the row, too, so that a batch with a single row gets other tokens.
    other_BT = tokens_BT.roll((1, 1), (0, 1))
    changed = {**batch, "tokens": torch.where(kept_BT, tokens_BT, other_BT)}

    y_BTD = _hidden(module, batch)
    difference_BT = (_hidden(module, changed) - y_BTD).abs().amax(-1)
    # Ignore padding, where the model predicts nothing.
    compared_BT = kept_BT & (batch["segments"] > 0)
    rounding = ROUNDING[module.config.trainer.precision] * y_BTD.abs().max()
    # A comparison with NaN is False, so a model with NaN outputs fails the check.
    if (difference_BT[compared_BT] <= rounding).all():
        return

    expected = (
        "outputs that depend only on the current and earlier tokens of the same segment, but in "
        f"{model} other tokens change them"
    )
    remedy = "fix the model's code, or choose another model"
    if not module.section.joined:
        remedy += (
            ". If the model cannot mask other sentences of a row, set task.joined=true"
        )
    raise invalid_value(*module.config.model.called, expected, remedy)


def check_fresh(module: TaskModule) -> None:
    """Raise UserError if an untrained model breaks one of these rules:

    - No output depends on later tokens, another segment or another row.
    - Every parameter receives a gradient.
    - The result of `own_logits` equals that of `logits`.

    Args:
        module: a module on the CPU, in evaluation mode. The check changes its weights.
    """
    length, model = module.section.sequence_length, module.model
    with torch.no_grad():
        # Change every parameter, because parameters that are initialised to zero can hide a fault.
        for weight in module.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
        for tried in {10, 64, length, max(2, length - 1)}:
            check_outputs(module, _random_rows(module, tried), "a fresh model")

    batch = _random_rows(module, length)
    hidden_BTD = _hidden(module, batch)
    own_BTV = model.own_logits(batch["tokens"], batch["segments"], batch["positions"])
    model.loss(hidden_BTD, batch["targets"])[0].backward()
    unused = [name for name, p in model.named_parameters() if p.grad is None]
    if unused:
        expected = f"a gradient for every parameter, but {unused[0]} receives none"
    elif not torch.allclose(model.logits(hidden_BTD), own_BTV, rtol=1e-5, atol=1e-6):
        expected = "a model that returns its softmax layer's logits unchanged, but it changes them"
    else:
        return
    remedy = "fix the model's code, or choose another model"
    raise invalid_value(*module.config.model.called, expected, remedy)


def _hidden(module: TaskModule, batch: Batch) -> Tensor:
    hidden_BTD: Tensor = module.model(
        batch["tokens"], batch["segments"], batch["positions"]
    )
    return hidden_BTD


def _random_rows(module: TaskModule, length: int) -> Batch:
    """Return a batch of ROWS random rows. Each has two sentences and, if it is long, padding."""
    drawn, section = np.random.default_rng(0), module.section
    ordinary = (END + 1, section.vocabulary_size)
    targets_BT = drawn.integers(*ordinary, (ROWS, length), np.uint16)
    targets_BT[:, length // 2] = END
    targets_BT[:, length - length // 8 :] = PAD
    return of_arrays(expand(targets_BT, section.joined))
