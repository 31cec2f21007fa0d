"""What Python asks of torch.cuda, answered as by one H200; and how a module moves to the card."""

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _foreach_utils

from tests.card.card import active, pinned

NAME = "NVIDIA H200 (no real one)"


def install():
    """Put the answers in place, for as long as this process lives."""
    answers = {
        "current_device": 0,
        "device_count": 1,
        "get_device_capability": (9, 0),
        "get_device_name": NAME,
        "is_available": True,
        "is_bf16_supported": True,
        "is_initialized": True,
        **dict.fromkeys(("_lazy_init", "init", "manual_seed_all", "set_device"), None),
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, _constant(answer))
    torch.cuda.synchronize = _synchronize
    torch.amp.autocast_mode.torch.cuda.amp.common.amp_definitely_not_available = (
        _constant(False)
    )
    Tensor.pin_memory = pinned
    _foreach_utils._foreach_supported_types.append(FakeTensor)
    nn.Module._apply = _apply


def _constant(answer):
    return lambda *_, **__: answer


def _synchronize(device=None):
    for card in active():
        card.wait("torch.cuda.synchronize")


def _apply(module, function, recurse=True):
    """Move by new parameters: the memory of one with no content cannot be swapped for a real one's.

    Whoever holds the old ones, as an optimizer may, would miss it; none does while it moves here.
    """
    for child in module.children() if recurse else ():
        child._apply(function)
    for slot in (module._parameters, module._buffers):
        for key, old in slot.items():
            if old is None:
                continue
            with torch.no_grad():
                new = function(old)
            if new is not old and slot is module._parameters:
                slot[key] = nn.Parameter(new.detach(), old.requires_grad)
            else:
                slot[key] = new
    return module
