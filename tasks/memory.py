"""How much GPU memory training takes: the live tensors of a step that computes nothing.

The model and a batch of the config's shape are made on the meta device, which stands for a GPU: the
same operators, sizes and lifetimes, no content. What a kernel allocates for itself is not seen.
On fake tensors of a CPU it predicts what a process without a GPU takes, which can be measured.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import Mock, patch

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from models.attention import _heads
from models.mask import SegmentLayout
from tasks.batch import Batch
from tasks.config.sections import RunConfig, TextSection
from tasks.parse import parse
from tasks.prepare import task_of
from tasks.task import Task
from tasks.training import machine
from tasks.training.module import TrainingModule

BLOCK = 512  # bytes, which the caching allocator rounds up to
# Beside live tensors; inferred, not measured: CUDA's context with cuBLAS, and what lies fallow
# between blocks of the allocator.
CONTEXT, FRAGMENTED = 10**9, 1.08
MOMENTS = 2  # AdamW keeps two numbers of each parameter


def memory(config: Mapping[str, Any], accelerator: str = "cuda") -> dict[str, int]:
    """Return the bytes of live tensors: resident between steps, and at most in each kind of work.

    On a CPU (`accelerator`) every row is taken to be of one text: what a layout by segments saves
    depends on the data.

    `resident` are parameters and moments; `training` and `evaluation` hold them too, and what they
    need at most at a time on one of `trainer.devices`, in `trainer.micro_batches` parts (auto: 1).
    `process` is what the GPU is asked for in all. Empty for a task that reads no text: it takes
    next to nothing.

    Raises:
        UserError: the config is wrong anywhere, one sentence.
    """
    run = parse(config)
    if not isinstance(run.task, TextSection):
        return {}
    half = run.trainer.precision == "bf16-mixed"
    with _of_gpu(half=half) if accelerator == "cuda" else _of_cpu() as device:
        return _counted(task_of(run), run, device)


def parts_that_fit(config: Mapping[str, Any]) -> int:
    """Return in how many parts a run's steps are to be worked off, so that they fit on this GPU.

    Where no number is enough, the one that takes least; without a GPU, 1.
    """
    if machine.kind_of(config["trainer"]["accelerator"]) == "cpu":
        return 1
    room = (machine.gpu_memory() - CONTEXT) / FRAGMENTED
    parts, taken = 1, _in_parts(config, 1)
    while taken > room and (less := _in_parts(config, 2 * parts)) < taken:
        parts, taken = 2 * parts, less
    return parts


def _in_parts(config: Mapping[str, Any], parts: int) -> int:
    trainer = {**config["trainer"], "micro_batches": parts}
    return memory({**config, "trainer": trainer}).get("training", 0)


def _counted(task: Task, run: RunConfig, device: str) -> dict[str, int]:
    with torch.device(device):
        model = task.build()
        batches = task.training_batches()
        evaluated = task.evaluation_batch()
    if run.trainer.precision == "64-true":
        model.double()
    parameters = sum(one.numel() * one.element_size() for one in model.parameters())
    copies = 2 if run.trainer.devices * run.trainer.num_nodes > 1 else 1  # of gradients, in buckets
    resident = (1 + MOMENTS) * parameters
    training = max(_training(task, model, run, batch) for batch in batches)
    training += resident + (copies - 1) * parameters
    evaluation = resident + _evaluation(task, model, run, evaluated)
    return {
        "resident": resident,
        "training": training,
        "evaluation": evaluation,
        "process": CONTEXT + int(FRAGMENTED * max(training, evaluation)),
    }


def _training(task: Task, model: nn.Module, run: RunConfig, batch: Batch) -> int:
    """Return the bytes that a step takes at most beside what is resident."""
    rows = len(next(iter(batch.values())))
    share = -(-rows // (run.trainer.devices * run.trainer.num_nodes))
    asked = run.trainer.micro_batches
    parts = 1 if asked == "auto" else min(asked, share)
    if parts > 1:  # two of them take what all would, one after the other
        share = 2 * -(-share // parts)
    module = TrainingModule(task, model.train(), min(parts, 2))
    model.zero_grad()
    with Live() as live:
        loss = module.training_step(_rows(batch, share), 1)
        loss.backward()
    model.zero_grad()
    return live.peak


def _evaluation(task: Task, model: nn.Module, run: RunConfig, batch: Batch) -> int:
    with Live() as live, torch.no_grad():
        task.score(model.eval(), batch)
    return live.peak


def _rows(batch: Batch, count: int) -> Batch:
    return {name: tensor[:count] for name, tensor in batch.items()}


@contextmanager
def _of_gpu(*, half: bool) -> Iterator[str]:
    """Where precision, fused attention and heads filled up are those of a GPU; its device."""
    with patch.dict(_heads.MULTIPLES, meta=_heads.MULTIPLES["cuda"]), Kernels(half=half):
        yield "meta"


@contextmanager
def _of_cpu() -> Iterator[str]:
    """Where tensors have no content and go the way of a CPU's, whole rows at a time; its device."""
    whole = Mock(return_value=Mock(saves=False))
    with (
        FakeTensorMode(),
        patch.object(SegmentLayout, "of", whole),
        patch.object(nn.init, "trunc_normal_"),  # looks at what it has drawn
    ):
        yield "cpu"


class Live(TorchDispatchMode):
    """Counts the bytes of storages that are made while it is on, and still in use."""

    def __init__(self) -> None:
        super().__init__()
        self.used = self.peak = 0
        self._known: set[int] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        given = {_storage(one) for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)}
        found = func(*args, **(kwargs or {}))
        for one in tree_leaves(found):
            if isinstance(one, Tensor) and _storage(one) not in given | self._known:
                self._take(one)
        return found

    def _take(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        size = -(-storage.nbytes() // BLOCK) * BLOCK
        self._known.add(storage._cdata)
        self.used += size
        self.peak = max(self.peak, self.used)
        weakref.finalize(storage, self._give_back, storage._cdata, size)

    def _give_back(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.used -= size


def _storage(tensor: Tensor) -> int:
    key: int = tensor.untyped_storage()._cdata
    return key


class Kernels(TorchFunctionMode):
    """What autocast and attention do on CUDA, which the meta device has neither of."""

    IN_HALF = (F.linear, torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm)
    IN_SINGLE = (F.layer_norm, F.cross_entropy, F.softmax, F.log_softmax)

    def __init__(self, *, half: bool) -> None:
        super().__init__()
        self._half = half

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        options = kwargs or {}
        if function is F.scaled_dot_product_attention:
            return self._attention(*args, **options)
        if function is F.dropout:
            return _dropout(*args, **options)
        if self._half and function in (*self.IN_HALF, *self.IN_SINGLE):
            dtype = torch.bfloat16 if function in self.IN_HALF else torch.float32
            args, options = tree_map_only(Tensor, lambda one: _cast(one, dtype), (args, options))
        return function(*args, **options)

    def _attention(
        self, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, **_: Any
    ) -> Tensor:
        dtype = torch.bfloat16 if self._half else query.dtype
        if attn_mask is not None:  # what is added to logits, also where it was given as a choice
            attn_mask = attn_mask.to(dtype)
        given = (_cast(one, dtype) for one in (query, key, value))
        found: Tensor = FusedAttention.apply(*given, attn_mask)
        return found


def _dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Dropout by the kernel that keeps a bit of each number in a byte."""
    return torch.native_dropout(input, p, training)[0] if training and p else input


def _cast(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


class FusedAttention(torch.autograd.Function):
    """Attention that keeps no logits, and takes room for a gradient in single precision."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> Tensor:
        rows, heads, length, _ = query.shape
        found = query.new_empty(rows, length, heads, value.shape[-1]).transpose(1, 2)
        log_sums = query.new_empty(rows, heads, length, dtype=torch.float32)
        ctx.save_for_backward(query, key, value, bias, found, log_sums)
        return found

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, bias, _, _ = ctx.saved_tensors
        made = [torch.empty_like(one) for one in (query, key, value)]
        of_bias = None if bias is None or not ctx.needs_input_grad[3] else torch.empty_like(bias)
        single = torch.empty_like(query, dtype=torch.float32)
        del single
        return (*made, of_bias)
