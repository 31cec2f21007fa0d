"""Where a job's rows of metrics go: to its own file, and mirrored to W&B."""

from __future__ import annotations

from collections.abc import Mapping

from sweeper.store.metrics import MetricsWriter
from tasks.training.wandb_mirror import Mirror


class MetricsLog:
    """The file is the record; the mirror may fail; the log is for whoever watches."""

    def __init__(self, writer: MetricsWriter, mirror: Mirror) -> None:
        self._writer = writer
        self._mirror = mirror

    def row(self, step: int, values: Mapping[str, float], left: float | None = None) -> None:
        """Write what is known after a step; `left` is for the log: seconds of training to come."""
        self._writer.write({"step": step, **values})
        self._mirror.log(step, values)
        words = ", ".join(f"{name} {value:.6g}" for name, value in values.items())
        to_come = "" if left is None else f", about {left:.0f} s left"
        print(f"step {step}: {words}{to_come}", flush=True)

    def sync(self) -> None:
        """Make every row durable."""
        self._writer.sync()


class NullLog(MetricsLog):
    """The log of ranks other than the first, who would only say the same."""

    def __init__(self) -> None:
        pass

    def row(self, step: int, values: Mapping[str, float], left: float | None = None) -> None:
        pass

    def sync(self) -> None:
        pass
