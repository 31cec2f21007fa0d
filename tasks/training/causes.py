"""The signals that stop a job, and the causes that a job records for its errors."""

import errno
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import torch

from sweeper.store.attempts import Cause
from sweeper.store.errors import UserError
from sweeper.store.files import FULL

STOPS = (signal.SIGTERM, signal.SIGINT)


class Interrupted(BaseException):
    """A request to stop the job. It is a BaseException, so that libraries do not catch it."""


class Interruption:
    """A handler of the signals that stop this process.

    The first signal raises Interrupted at once. Within `deferred`, it only sets `requested`, and
    the next call of `check` raises Interrupted. Further signals do nothing, because systemd, Slurm
    and the sweep may each send one.
    """

    def __init__(self) -> None:
        self.requested = False
        self._deferred = False

    def install(self) -> None:
        """Handle the stop signals. This replaces any handler that a library installed."""
        for number in STOPS:
            signal.signal(number, self._handle)

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Defer signals in the block: they only set `requested`. Call `check` to act on them."""
        self._deferred = True
        try:
            yield
        finally:
            self._deferred = False

    def synchronize(self) -> None:
        """Do nothing. With several ranks, SynchronizedStop shares `requested` among them."""

    def check(self) -> None:
        """Raise Interrupted if the job was asked to stop."""
        if self.requested:
            raise Interrupted

    def _handle(self, number: int, frame: FrameType | None) -> None:
        before, self.requested = self.requested, True
        if not before and not self._deferred:
            raise Interrupted


# Phrases in the messages of errors that have no exception class of their own. The errors come from
# torch, CUDA's libraries and C++.
GPU_MEMORY = (
    "CUDA out of memory",
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUSOLVER_STATUS_ALLOC_FAILED",
    "Cuda failure 2 'out of memory'",  # NCCL
    "Cuda failure 'out of memory'",  # older NCCL
)
HOST_MEMORY = ("DefaultCPUAllocator", "std::bad_alloc", "Cannot allocate memory")
DISK = ("No space left on device", "Disk quota exceeded")


class NotFinite(Exception):
    """The error raised if a loss or metric is nan or infinite. It names the step and the remedy."""

    def __init__(self, name: str, value: float, step: int) -> None:
        super().__init__(
            f"{name} is {value} at step {step} of training; lower optimizer.learning_rate, "
            "lengthen optimizer.warmup_steps or set optimizer.gradient_clip."
        )


def cause_of(error: BaseException, reading_data: bool) -> Cause:
    """Return the cause to record for an error.

    Args:
        reading_data: whether the job was reading its data. A UserError then has the cause DATA,
            otherwise CONFIG.
    """
    if isinstance(error, Interrupted):
        return Cause.INTERRUPTED
    if isinstance(error, NotFinite):
        return Cause.NAN
    if isinstance(error, UserError):
        return Cause.DATA if reading_data else Cause.CONFIG

    # Libraries wrap an OSError in exceptions of their own, so look through the whole chain.
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = current.__cause__ or current.__context__

    errnos = {e.errno for e in chain if isinstance(e, OSError)}
    if errnos.intersection(FULL) or _says(chain, DISK):
        return Cause.DISK_FULL
    if any(isinstance(e, torch.OutOfMemoryError) for e in chain) or _says(
        chain, GPU_MEMORY
    ):
        return Cause.OUT_OF_GPU_MEMORY
    raised = errno.ENOMEM in errnos or any(isinstance(e, MemoryError) for e in chain)
    if raised or _says(chain, HOST_MEMORY):
        return Cause.OUT_OF_HOST_MEMORY
    return Cause.CRASH


def message_of(error: BaseException) -> str:
    """Return an error's message as one line. Its type comes first, unless it is a UserError."""
    text = " ".join(str(error).split())
    return (
        text
        if isinstance(error, UserError | NotFinite)
        else f"{type(error).__name__}: {text}"
    )


def _says(chain: list[BaseException], phrases: tuple[str, ...]) -> bool:
    return any(phrase in str(error) for error in chain for phrase in phrases)
