"""Training steps that a GPU plays from a recording: a CUDA graph of all kernels of a step.

Launching the kernels of a small step one by one takes the host ten times as long as the GPU needs
to run them; playing a recording is one launch. A recording does what was done when it was made,
whatever Python would do now, so each is compared with a plain step before it is used.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sweeper.store.errors import invalid_value
from tasks.batch import Batch
from tasks.training.causes import message_of
from tasks.training.steps import Steps

MOST = 16  # recordings; a batch of a further shape is trained on without one


class Recording(NamedTuple):
    """A graph, the batch that it reads, and the loss that it writes."""

    graph: torch.cuda.CUDAGraph
    batch: Batch
    loss: Tensor


class CapturedSteps:
    """Takes the training steps of one GPU.

    The first step of a batch shape is a plain one. The second is taken twice, plainly and from a
    new recording; later ones are played from it. If the two differ in a bit, or the plain one makes
    the host wait for the GPU, all further steps are plain.
    """

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        device = steps.fabric.device
        self._stream = torch.cuda.Stream(device)
        self._pool = torch.cuda.graph_pool_handle()
        self._rate = torch.zeros((), device=device)  # the learning rate of all recordings
        self._recordings: dict[Any, Recording | None] = {}  # None: a shape seen once
        self._usable = True

    def __call__(self, number: int, batch: Batch) -> Tensor:
        """Take step `number` (from 0); return the loss of the batch, which stays on the GPU."""
        # Autograd adds gradients up on the stream where a parameter was first used. A recording
        # must not wait for another stream, so all steps are on one.
        current = torch.cuda.current_stream(self._stream.device)
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            loss = self._taken(number, batch)
        current.wait_stream(self._stream)
        return loss

    def _taken(self, number: int, batch: Batch) -> Tensor:
        shape = tuple((name, *one.shape) for name, one in batch.items())
        seen = shape in self._recordings
        if not seen and len(self._recordings) < MOST:
            self._recordings[shape] = None
        if not seen or not self._usable:
            return self._steps(number, batch)
        recording = self._recordings[shape]
        if recording is not None:
            return self._played(recording, number, batch)
        before = [one.clone() for one in self._state()]
        try:
            with waits_are_errors():
                loss = self._steps(number, batch)
        except RuntimeError as error:
            if "synchronizing CUDA operation" not in str(error):
                raise
            return self._plain_from_here(
                f"a step waits: {message_of(error)}", before, number, batch
            )
        after = [one.clone() for one in self._state()]
        recording = self._recorded(number, batch)
        self._reset(before)
        again = self._played(recording, number, batch)
        pairs = zip([loss, *after], [again, *self._state()], strict=True)
        if not all(torch.equal(one, other) for one, other in pairs):
            return self._plain_from_here("it gives other bits", before, number, batch)
        self._recordings[shape] = recording
        return again

    def _recorded(self, number: int, batch: Batch) -> Recording:
        """Record a step; nothing is computed. The optimizer has its state already."""
        steps, own = self._steps, {name: one.clone() for name, one in batch.items()}
        steps.optimizer.zero_grad()  # the recording makes its own
        groups = steps.optimizer.param_groups
        rates = [group["lr"] for group in groups]
        graph = torch.cuda.CUDAGraph()
        for group in groups:
            group["lr"], group["capturable"] = self._rate, True
        try:
            # Another thread pins the next batch meanwhile.
            with torch.cuda.graph(
                graph, self._pool, self._stream, capture_error_mode="thread_local"
            ):
                loss = steps.update(number, own)
        except RuntimeError as error:  # an error within makes the end of the recording one, too
            first = error.__context__ if isinstance(error.__context__, RuntimeError) else error
            if isinstance(first, torch.OutOfMemoryError):
                raise first from None
            expected = f"a step that can be recorded, but: {message_of(first)}"
            remedy = "give trainer.cuda_graph=false"
            raise invalid_value("trainer.cuda_graph", "true", expected, remedy) from error
        finally:  # as checkpoints have them
            for group, rate in zip(groups, rates, strict=True):
                group["lr"], group["capturable"] = rate, False
        return Recording(graph, own, loss)

    def _played(self, recording: Recording, number: int, batch: Batch) -> Tensor:
        for name, value in batch.items():
            recording.batch[name].copy_(value)
        self._steps.module.on_train_batch_start(batch, number)
        self._rate.fill_(self._steps.optimizer.param_groups[0]["lr"])
        recording.graph.replay()
        return recording.loss.clone()  # the next step writes another into its place

    def _plain_from_here(self, why: str, before: list[Tensor], number: int, batch: Batch) -> Tensor:
        print(f"steps are not recorded: {why}", flush=True)
        self._usable = False
        self._recordings.clear()
        self._reset(before)
        return self._steps(number, batch)

    def _state(self) -> list[Tensor]:
        """Return the tensors that a step changes, always in the same order."""
        module = self._steps.module
        optimizer = [*self._steps.optimizer.state.values()]
        of_optimizer = [one for own in optimizer for one in own.values() if torch.is_tensor(one)]
        return [*module.parameters(), *module.buffers(), *of_optimizer]

    @torch.no_grad()
    def _reset(self, values: list[Tensor]) -> None:
        for one, value in zip(self._state(), values, strict=True):
            one.copy_(value)


@contextmanager
def waits_are_errors() -> Iterator[None]:
    """Make it a RuntimeError if the host waits for the GPU, where torch notices."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that it does not notice all
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")
