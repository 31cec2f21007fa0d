"""The signals that stop a job, and the causes of errors that a job records."""

import errno
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import torch

from sweeper.store.attempts import Cause
from sweeper.store.errors import UserError
from sweeper.store.files import FULL
from tasks import ranks

STOPS = (signal.SIGTERM, signal.SIGINT)


class Interrupted(BaseException):
    """The exception that a stop signal raises in the job.

    It is a BaseException, so that libraries do not catch it.
    """


class Interruption:
    """A handler of the signals that stop this process.

    The first signal raises Interrupted at once. Within `deferred`, it only sets `requested`, and
    the next call of `check` raises Interrupted. Further signals do nothing, because systemd, Slurm
    and the sweep may each send one.

    The ranks of a run must stop after the same step. So if a run has several ranks, a deferred
    signal to one of them has no effect until all ranks call `synchronize`. This sets `requested` on
    every rank.
    """

    def __init__(self) -> None:
        self.requested = False
        self._received = False
        self._deferred = False

    def install(self) -> None:
        """Begin to handle the stop signals. This replaces handlers that libraries installed."""
        for number in STOPS:
            signal.signal(number, self._handle)

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Within the block, let a signal only set `requested`. Call `check` to act on it."""
        self._deferred = True
        try:
            yield
        finally:
            self._deferred = False

    def synchronize(self) -> None:
        """Set `requested` if any rank has received a signal.

        All ranks must call this method after each step, because they communicate.
        """
        received = torch.tensor(float(self._received))
        any_received = bool(ranks.mean(received) > 0)
        # Never assign False, because that could undo what a signal has just set.
        if any_received:
            self.requested = True

    def check(self) -> None:
        """Raise Interrupted if `requested` is set."""
        if self.requested:
            raise Interrupted

    def _handle(self, number: int, frame: FrameType | None) -> None:
        before, self._received = self._received, True
        if ranks.world() == 1 or not self._deferred:
            self.requested = True
        if not before and not self._deferred:
            raise Interrupted


# Phrases in the messages of errors that identify the cause. Many errors of torch, CUDA's libraries
# and C++ have no exception class of their own.
PHRASES = {
    Cause.DISK_FULL: (
        "No space left on device",
        "Disk quota exceeded",
    ),
    Cause.OUT_OF_GPU_MEMORY: (
        "CUDA out of memory",
        "CUDA error: out of memory",
        "CUBLAS_STATUS_ALLOC_FAILED",
        "CUDNN_STATUS_ALLOC_FAILED",
        "CUSOLVER_STATUS_ALLOC_FAILED",
        "Cuda failure 2 'out of memory'",  # NCCL
        "Cuda failure 'out of memory'",  # older NCCL
    ),
    Cause.OUT_OF_HOST_MEMORY: (
        "DefaultCPUAllocator",
        "std::bad_alloc",
        "Cannot allocate memory",
    ),
}


class NotFinite(Exception):
    """The error raised if a loss or a metric is nan or infinite."""

    def __init__(self, name: str, value: float, step: int) -> None:
        super().__init__(
            f"{name} is {value} at step {step} of training; lower optimizer.learning_rate, "
            "lengthen optimizer.warmup_steps or set optimizer.gradient_clip."
        )


def cause_of(error: BaseException, reading_data: bool) -> Cause:
    """Return the cause to record for an error.

    Args:
        reading_data: whether the job was reading its data when the error was raised. If true, the
            cause of a UserError is DATA, otherwise CONFIG.
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

    numbers = {one.errno for one in chain if isinstance(one, OSError)}
    no_memory = any(isinstance(one, MemoryError) for one in chain)
    by_type = {
        Cause.DISK_FULL: not numbers.isdisjoint(FULL),
        Cause.OUT_OF_GPU_MEMORY: any(
            isinstance(one, torch.OutOfMemoryError) for one in chain
        ),
        Cause.OUT_OF_HOST_MEMORY: no_memory or errno.ENOMEM in numbers,
    }
    text = "\n".join(map(str, chain))
    for cause, phrases in PHRASES.items():
        if by_type[cause] or any(phrase in text for phrase in phrases):
            return cause
    return Cause.CRASH


def message_of(error: BaseException) -> str:
    """Return an error's message as one line, such as "ValueError: bad shape".

    Leave out the type if this project defines it, because such messages are complete sentences.
    """
    text = " ".join(str(error).split())
    if isinstance(error, UserError | NotFinite | Interrupted):
        return text
    return f"{type(error).__name__}: {text}"
