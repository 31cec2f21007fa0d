"""A GPU that computes nothing: shapes, types, devices, memory, kernels and waits are CUDA's.

Tensors of the CPU stay real; the card's have no content, and whatever is read back from it is ones.
It does not show numbers, speed, workspaces, fragmentation or what Triton and NCCL do.
"""

import traceback
import weakref
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch._C import DispatchKey, _dispatch_has_kernel_for_dispatch_key
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

ROOT = Path(__file__).resolve().parents[2]
BLOCK = 512  # bytes, which the caching allocator rounds up to
COPIES = ("_to_copy", "copy_")
NO_LAUNCH = (
    "empty empty_like empty_strided new_empty new_empty_strided resize_ set_".split()
)
"""Reserve memory and leave it as it is."""
SIZED_BY_CONTENT = (
    "masked_select nonzero repeat_interleave unique_consecutive unique_dim".split()
)
"""Make the host wait to learn how much they return."""


class Wait(NamedTuple):
    """A moment at which the host waits for the card, or for a copy to it."""

    phase: str
    what: str
    where: str


class Memory:
    """Bytes of the card that are in use, by storages that live."""

    def __init__(self):
        self.used = self.peak = 0
        self._live: set[int] = set()

    def take(self, tensor):
        """Count the storage of a tensor; return whether it is a new one."""
        storage = tensor.untyped_storage()
        key, size = storage._cdata, -(-storage.nbytes() // BLOCK) * BLOCK
        if key in self._live:
            return False
        self._live.add(key)
        self.used += size
        self.peak = max(self.peak, self.used)
        weakref.finalize(storage, self._give_back, key, size)
        return True

    def _give_back(self, key, size):
        self._live.discard(key)
        self.used -= size


class Card(TorchDispatchMode):
    """What runs inside `with card:` may use device "cuda".

    Attributes:
        phase: what `kernels`, `waits` and `largest` are booked under; set from outside.
        kernels: launches by phase and operator.
        largest: bytes of the largest new tensor by phase and dtype.
    """

    def __init__(self):
        super().__init__()
        self.memory = Memory()
        self.phase = "start"
        self.kernels: Counter[tuple[str, str]] = Counter()
        self.waits: list[Wait] = []
        self.largest: dict[tuple[str, str], int] = {}
        self._fake = FakeTensorMode(allow_non_fake_inputs=True)

    def wait(self, what):
        """Note that the host waits here."""
        frames = [
            frame for frame in traceback.extract_stack() if _is_ours(frame.filename)
        ]
        where = [
            f"{Path(f.filename).relative_to(ROOT)}:{f.lineno}" for f in frames[::-1][:3]
        ]
        self.waits.append(Wait(self.phase, what, " < ".join(where)))

    def launches(self, phase):
        """Return the number of kernels and copies of a phase."""
        return sum(count for (at, _), count in self.kernels.items() if at == phase)

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
        new = [
            one for one in tree_leaves(found) if _of_card(one) and self.memory.take(one)
        ]
        for tensor in new:
            key = (self.phase, str(tensor.dtype).removeprefix("torch."))
            self.largest[key] = max(
                self.largest.get(key, 0), tensor.untyped_storage().nbytes()
            )
        if (new or call.func._schema.is_mutable) and call.name not in NO_LAUNCH:
            self.kernels[self.phase, call.name] += 1
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
    card.kernels[card.phase, "upload"] += 1
    if into is not None:
        return into
    dtype = call.kwargs.get("dtype") or source.dtype
    with card._fake:
        found = torch.empty(source.shape, dtype=dtype, device="cuda")
    card.memory.take(found)
    return found


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
