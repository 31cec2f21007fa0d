"""Training steps as CUDA graphs: one launch replays all kernels of a step.

For a small step, launching the kernels one by one takes ten times as long as running them. A replay
runs no Python code, so its results are wrong if a step depends on Python values that change. So
each graph is compared with an eager step before it is used.
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

# Capture graphs for at most this many batch shapes. Steps with other shapes are eager.
MOST_GRAPHS = 16


class CapturedStep(NamedTuple):
    """A captured training step.

    Attributes:
        graph: the CUDA graph of the step.
        batch: the tensors from which the graph reads the batch.
        loss: the tensor to which the graph writes the loss.
    """

    graph: torch.cuda.CUDAGraph
    batch: Batch
    loss: Tensor


class CapturedSteps:
    """A callable that takes training steps on one GPU, with CUDA graphs where possible.

    For each batch shape, the first step is eager. The second step is taken twice, eagerly and by a
    new graph, from the same state. Later steps replay the graph.

    If the two results of a second step differ in any bit, or if its eager version waits for the
    GPU, all further steps of all shapes are eager.
    """

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        device = steps.fabric.device
        self._stream = torch.cuda.Stream(device)
        self._pool = torch.cuda.graph_pool_handle()

        # All graphs read the learning rate from this tensor.
        self._rate = torch.zeros((), device=device)
        # The graph of each batch shape that has occurred. It is None until the second step with
        # this shape.
        self._captured: dict[Any, CapturedStep | None] = {}
        self._most_graphs = MOST_GRAPHS

    def __call__(self, number: int, batch: Batch) -> Tensor:
        """Take step `number` (from 0) and return the loss of the batch, on the GPU."""
        # Run all steps on one stream. Autograd accumulates a gradient on the stream that first used
        # the parameter, and a captured step must not wait for another stream.
        current = torch.cuda.current_stream(self._stream.device)
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            loss = self._take(number, batch)
        current.wait_stream(self._stream)
        return loss

    def _take(self, number: int, batch: Batch) -> Tensor:
        shape = tuple((name, *tensor.shape) for name, tensor in batch.items())
        if shape not in self._captured:
            if len(self._captured) < self._most_graphs:
                self._captured[shape] = None
            return self._steps(number, batch)

        captured = self._captured[shape]
        if captured is not None:
            return self._replay(captured, number, batch)

        before = [tensor.clone() for tensor in self._state()]
        try:
            with raise_on_synchronization():
                loss = self._steps(number, batch)
        except RuntimeError as error:
            if "synchronizing CUDA operation" not in str(error):
                raise
            why = f"a step synchronizes with the GPU: {message_of(error)}"
            return self._eager_from_here(why, before, number, batch)
        after = [tensor.clone() for tensor in self._state()]

        captured = self._capture(number, batch)
        self._reset(before)
        again = self._replay(captured, number, batch)
        pairs = zip([loss, *after], [again, *self._state()], strict=True)
        if not all(torch.equal(eager, replayed) for eager, replayed in pairs):
            why = "the results of a graph and of an eager step differ"
            return self._eager_from_here(why, before, number, batch)

        self._captured[shape] = captured
        return again

    def _capture(self, number: int, batch: Batch) -> CapturedStep:
        """Capture a step as a graph without running it.

        An eager step must have been taken before, because the first step creates the optimizer's
        state.
        """
        steps = self._steps
        own = {name: tensor.clone() for name, tensor in batch.items()}
        steps.optimizer.zero_grad()  # the graph allocates its own gradients
        groups = steps.optimizer.param_groups
        rates = [group["lr"] for group in groups]

        graph = torch.cuda.CUDAGraph()
        for group in groups:
            group["lr"], group["capturable"] = self._rate, True
        try:
            # "thread_local" lets the thread of `prefetched` pin the next batch during the capture.
            with torch.cuda.graph(
                graph, self._pool, self._stream, capture_error_mode="thread_local"
            ):
                loss = steps.update(number, own)
        except RuntimeError as error:
            # An error in the step makes the end of the capture fail, too. Report the error in the
            # step, which came first.
            first = error.__context__ or error
            if isinstance(first, torch.OutOfMemoryError):
                raise first from None
            expected = f"a step that CUDA can capture as a graph, but it raises {message_of(first)}"
            remedy = "set trainer.cuda_graph=false"
            raise invalid_value(
                "trainer.cuda_graph", "true", expected, remedy
            ) from error
        finally:
            # Checkpoints must hold the learning rate as a number and "capturable" as False.
            for group, rate in zip(groups, rates, strict=True):
                group["lr"], group["capturable"] = rate, False
        return CapturedStep(graph, own, loss)

    def _replay(self, captured: CapturedStep, number: int, batch: Batch) -> Tensor:
        for name, value in batch.items():
            captured.batch[name].copy_(value)
        self._steps.module.on_train_batch_start(batch, number)
        self._rate.fill_(self._steps.optimizer.param_groups[0]["lr"])
        captured.graph.replay()
        return captured.loss.clone()  # the next replay overwrites the loss

    def _eager_from_here(
        self, why: str, before: list[Tensor], number: int, batch: Batch
    ) -> Tensor:
        print(f"training continues without CUDA graphs: {why}", flush=True)
        self._captured, self._most_graphs = {}, 0
        self._reset(before)
        return self._steps(number, batch)

    def _state(self) -> list[Tensor]:
        """Return the tensors that a step changes, in a fixed order."""
        module = self._steps.module
        of_optimizer = [
            value
            for state in self._steps.optimizer.state.values()
            for value in state.values()
            if torch.is_tensor(value)
        ]
        return [*module.parameters(), *module.buffers(), *of_optimizer]

    @torch.no_grad()
    def _reset(self, values: list[Tensor]) -> None:
        for tensor, value in zip(self._state(), values, strict=True):
            tensor.copy_(value)


@contextmanager
def raise_on_synchronization() -> Iterator[None]:
    """Within the block, make torch raise RuntimeError if the host waits for the GPU.

    torch detects most such waits, but not all.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that its detection is incomplete
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")
