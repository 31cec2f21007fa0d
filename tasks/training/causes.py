"""The early end of a job: the signals that stop it, and the cause of an error for the store."""

import errno
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import torch

from sweeper.store.attempts import Cause
from sweeper.store.errors import UserError
from sweeper.store.files import FULL

STOPS = (signal.SIGTERM, signal.SIGINT)


class Interrupted(BaseException):
    """The job was asked to stop. Not an Exception, so that no library takes it for a failure."""


class Interruption:
    """The request to stop this process.

    Outside of `deferred` the first signal raises Interrupted at once; inside it only sets
    `requested`, and the job stops where its state is whole. A second Ctrl-C calls `at_once`; a
    second SIGTERM does nothing: systemd, Slurm and the sweep may each send one.
    """

    def __init__(self, at_once: Callable[[], None]) -> None:
        self.requested = False
        self._at_once = at_once
        self._deferred = False

    def install(self) -> None:
        """Handle the signals, also those that a library handles meanwhile."""
        for number in STOPS:
            signal.signal(number, self._handle)

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Set only `requested` on a signal in the block, which has to check it."""
        self._deferred = True
        try:
            yield
        finally:
            self._deferred = False

    def synchronize(self) -> None:
        """Share `requested` among the processes of a run; here there is one."""

    def check(self) -> None:
        """Raise Interrupted if the job was asked to stop."""
        if self.requested:
            raise Interrupted

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            if number == signal.SIGINT:
                self._at_once()
            return
        self.requested = True
        if not self._deferred:
            raise Interrupted


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
    # Libraries wrap errors of the system.
    chain: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and one not in chain:
        chain.append(one)
        one = one.__cause__ or one.__context__
    numbers = {e.errno for e in chain if isinstance(e, OSError)}
    if numbers.intersection(FULL) or _says(chain, DISK):
        return Cause.DISK_FULL
    if any(isinstance(e, torch.OutOfMemoryError) for e in chain) or _says(chain, GPU_MEMORY):
        return Cause.OUT_OF_GPU_MEMORY
    memory = errno.ENOMEM in numbers or any(isinstance(e, MemoryError) for e in chain)
    if memory or _says(chain, HOST_MEMORY):
        return Cause.OUT_OF_HOST_MEMORY
    return Cause.CRASH


def message_of(error: BaseException) -> str:
    """Return the message for people, as one line."""
    text = " ".join(str(error).split())
    return text if isinstance(error, UserError | NotFinite) else f"{type(error).__name__}: {text}"


def _says(chain: list[BaseException], phrases: tuple[str, ...]) -> bool:
    return any(phrase in str(error) for error in chain for phrase in phrases)
