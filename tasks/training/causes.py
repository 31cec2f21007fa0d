"""Causes of failure: an exception as one of the causes that the store knows."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import torch

from sweeper.store.attempts import Cause
from sweeper.store.errors import UserError
from tasks.training.signals import Interrupted

FULL = {errno.ENOSPC, errno.EDQUOT}
# Messages of torch, CUDA's libraries and C++ that have no exception class.
GPU_MEMORY = (
    "CUDA out of memory",
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUSOLVER_STATUS_ALLOC_FAILED",
    "Cuda failure 2 'out of memory'",  # NCCL
    "Cuda failure 'out of memory'",  # NCCL of old
)
HOST_MEMORY = ("DefaultCPUAllocator", "std::bad_alloc", "Cannot allocate memory")
DISK = ("No space left on device", "Disk quota exceeded")


class NotFinite(Exception):
    """A loss that is nan or infinite; the message says where and what to do."""

    def __init__(self, name: str, value: float, step: int) -> None:
        super().__init__(
            f"{name} is {value} at step {step} of training; lower optimizer.learning_rate, "
            "lengthen optimizer.warmup_steps or set optimizer.gradient_clip."
        )


def cause_of(error: BaseException, reading_data: bool) -> Cause:
    """Return the cause; a UserError is about the data if `reading_data`, else about the config."""
    if isinstance(error, Interrupted):
        return Cause.INTERRUPTED
    if isinstance(error, NotFinite):
        return Cause.NAN
    if isinstance(error, UserError):
        return Cause.DATA if reading_data else Cause.CONFIG
    chain = list(_chain(error))
    numbers = {one.errno for one in chain if isinstance(one, OSError)}
    if numbers & FULL or _says(chain, DISK):
        return Cause.DISK_FULL
    if any(isinstance(one, torch.OutOfMemoryError) for one in chain) or _says(chain, GPU_MEMORY):
        return Cause.OUT_OF_GPU_MEMORY
    memory = errno.ENOMEM in numbers or any(isinstance(one, MemoryError) for one in chain)
    if memory or _says(chain, HOST_MEMORY):
        return Cause.OUT_OF_HOST_MEMORY
    return Cause.CRASH


def message_of(error: BaseException) -> str:
    """Return the message for people, as one line."""
    text = " ".join(str(error).split())
    return text if isinstance(error, UserError | NotFinite) else f"{type(error).__name__}: {text}"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the exception and those it was raised from: libraries wrap errors of the system."""
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        yield one
        one = one.__cause__ or one.__context__


def _says(chain: list[BaseException], phrases: tuple[str, ...]) -> bool:
    return any(phrase in str(error) for error in chain for phrase in phrases)
