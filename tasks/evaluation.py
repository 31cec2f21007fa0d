"""Runs a model over a whole split: no gradients, no dropout, the precision it was trained in."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import torch
from torch import nn

from tasks.batch import Batch, moved

Output = TypeVar("Output")


class Evaluator:
    """Where evaluation runs, and what is called between two batches (it may raise to stop)."""

    def __init__(
        self, device: torch.device, precision: str, between: Callable[[], None] = lambda: None
    ) -> None:
        self._device = device
        self._autocast = precision == "bf16-mixed"
        self._between = between

    def run(
        self,
        model: nn.Module,
        batches: Iterable[Batch],
        function: Callable[[nn.Module, Batch], Output],
    ) -> list[Output]:
        """Return `function(model, batch)` of every batch; the model's mode is left as it was."""
        training = model.training
        model.eval()
        outputs = []
        half = torch.autocast(self._device.type, torch.bfloat16, enabled=self._autocast)
        try:
            with torch.inference_mode(), half:
                for batch in batches:
                    self._between()
                    outputs.append(function(model, moved(batch, self._device)))
        finally:
            model.train(training)
        return outputs
