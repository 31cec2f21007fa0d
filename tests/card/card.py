"""A GPU that computes nothing: shapes, types, devices and waits are CUDA's.

Tensors of the CPU stay real. The card's have no content; a value read back from it is 1.
It does not show numbers, speed, memory, or what Triton and NCCL do.
"""

import traceback
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch._C import DispatchKey, _dispatch_has_kernel_for_dispatch_key
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

ROOT = Path(__file__).resolve().parents[2]
COPIES = ("_to_copy", "copy_")
SIZED_BY_CONTENT = (
    "masked_select nonzero repeat_interleave unique_consecutive unique_dim".split()
)
"""Make the host wait to learn how much they return."""


class Wait(NamedTuple):
    """A moment at which the host waits for the card, or for a copy to it."""

    what: str
    where: str


class Card(TorchDispatchMode):
    """What runs inside `with card:` may use device "cuda".

    Attributes:
        waits: the moments at which the host waits.
        largest: bytes of the largest tensor by dtype.
    """

    def __init__(self):
        super().__init__()
        self.waits: list[Wait] = []
        self.largest: dict[str, int] = {}
        self._fake = FakeTensorMode(allow_non_fake_inputs=True)

    def wait(self, what):
        """Note that the host waits here."""
        frames = [
            frame for frame in traceback.extract_stack() if _is_ours(frame.filename)
        ]
        where = [
            f"{Path(f.filename).relative_to(ROOT)}:{f.lineno}" for f in frames[::-1][:3]
        ]
        self.waits.append(Wait(what, " < ".join(where)))

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        call = _Call(func, args, kwargs or {})
        if not call.on_card:
            return call.on_host()
        if call.is_composite:  # as it arrives in inference mode
            with self:
                return func.decompose(*args, **call.kwargs)
        answer = _ANSWERS.get(call.name)
        if answer is not None and (answered := answer(self, call)) is not None:
            return answered
        return self._run(call)

    def _run(self, call):
        arguments = tree_map_only(Tensor, self._as_fake, (call.args, call.kwargs))
        with self._fake:
            found = call.func(*arguments[0], **arguments[1])
        for tensor in filter(_of_card, tree_leaves(found)):
            dtype = str(tensor.dtype).removeprefix("torch.")
            size = tensor.untyped_storage().nbytes()
            self.largest[dtype] = max(self.largest.get(dtype, 0), size)
        return found

    def _as_fake(self, tensor):
        return (
            tensor if isinstance(tensor, FakeTensor) else self._fake.from_tensor(tensor)
        )


class _Call:
    """An operator with its arguments."""

    def __init__(self, func, args, kwargs):
        self.func, self.args, self.kwargs = func, args, kwargs
        self.name: str = func._schema.name.split("::")[1]
        tensors = [
            one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)
        ]
        self.cards = [one for one in tensors if _of_card(one)]
        self.hosts = [one for one in tensors if not isinstance(one, FakeTensor)]
        device = kwargs.get("device")
        self.target = None if device is None else torch.device(device).type
        self.on_card = bool(self.cards) or self.target == "cuda"

    @property
    def is_composite(self):
        key = DispatchKey.CompositeImplicitAutograd
        return self.func.namespace == "aten" and _dispatch_has_kernel_for_dispatch_key(
            self.func.name(), key
        )

    def on_host(self):
        if self.name == "_pin_memory":  # a CPU build has none
            return pinned(self.args[0])
        return (
            False if self.name == "is_pinned" else self.func(*self.args, **self.kwargs)
        )


def _item(card, call):
    card.wait("a value is read")
    dtype = call.args[0].dtype
    return True if dtype == torch.bool else 1.0 if dtype.is_floating_point else 1


def _equal(card, call):
    card.wait("two tensors are compared")
    return True


def _copy(card, call):
    """A copy between host and card; None for one that stays on the card."""
    into = call.args[0] if call.name == "copy_" else None
    source = call.args[1 if into is not None else 0]
    from_card = _of_card(source)
    to_card = _of_card(into) if into is not None else call.target in ("cuda", None)
    if from_card and to_card:
        return None
    patient = call.kwargs.get("non_blocking") or (
        into is not None and len(call.args) > 2
    )
    if from_card:
        card.wait(f"{tuple(source.shape)} {source.dtype} is copied to the host")
        if into is not None:
            return into.fill_(1)
        return torch.ones(source.shape, dtype=call.kwargs.get("dtype") or source.dtype)
    if not (patient and getattr(source, "is_page_locked", False)):
        card.wait(f"{tuple(source.shape)} {source.dtype} is copied to the card")
    if into is not None:
        return into
    dtype = call.kwargs.get("dtype") or source.dtype
    with card._fake:
        return torch.empty(source.shape, dtype=dtype, device="cuda")


def _depends_on_content(card, call):
    card.wait(f"the size of what {call.name} returns depends on content")


def _index(card, call):
    for index in call.args[1]:
        if isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8):
            card.wait(f"{call.name} by a mask: how many are True?")
        elif isinstance(index, Tensor) and not _of_card(index):
            card.wait(f"{call.name} by a tensor of the host")


def _takes_no_host_tensor(card, call):
    if call.hosts:
        card.wait(f"{call.name} takes a tensor of the host")


_ANSWERS = {
    "_local_scalar_dense": _item,
    "equal": _equal,
    **dict.fromkeys(COPIES, _copy),
    **dict.fromkeys(SIZED_BY_CONTENT, _depends_on_content),
    **dict.fromkeys(("index", "index_put", "index_put_", "_index_put_impl_"), _index),
    "_fused_adamw_": _takes_no_host_tensor,
}


def pinned(tensor):
    """Return a copy that the card fetches while the host goes on."""
    copy = tensor.clone()
    copy.is_page_locked = True
    return copy


def _of_card(value):
    return isinstance(value, FakeTensor) and value.fake_device.type == "cuda"


def _is_ours(file):
    path = Path(file)
    return path.is_relative_to(ROOT) and not path.is_relative_to(Path(__file__).parent)


def active():
    """Yield the card that is in use, if one is."""
    modes = torch.utils._python_dispatch._get_current_dispatch_mode_stack()
    return (mode for mode in modes if isinstance(mode, Card))
