"""Times a training step of each shape beside its peers: `python -m benchmarks.step`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from statistics import median

from benchmarks.measure import Facts, arguments, leave, present, speed_ups

if __name__ == "__main__":
    arguments(__doc__)  # --help is answered before torch is imported

import torch

from benchmarks.apart import Make, apart
from benchmarks.shapes import (
    SHAPES,
    SMOKE,
    Batch,
    Maker,
    Shape,
    alone,
    headroom,
    mistral,
    step,
    training_flops,
    x_transformers,
)

PEERS = {"transformers": mistral, "x_transformers": x_transformers}
PRODUCTS, SIZE = 3, 1024  # matrix products in a round that measures the peak, and their size


def results(smoke: bool) -> Iterator[Facts]:
    alone()
    shapes = SMOKE if smoke else SHAPES
    peers = [] if smoke else [name for name in PEERS if present(name)]
    for name, shape in shapes.items():
        yield {"shape": name, **measured(shape, peers, rounds=2 if smoke else 7)}


def measured(shape: Shape, peers: list[str], rounds: int) -> Facts:
    """Tokens per second, the share of the peak, and our speed over each peer's."""
    makers = _makers(shape, peers)
    steps = list(makers)
    times = apart({**makers, "peak": _products}, rounds)
    peak = PRODUCTS * 2 * SIZE**3 / median(times["peak"])
    seconds = {variant: median(times[variant]) for variant in steps}
    flops = training_flops(shape.decoder(), Batch.drawn(shape))
    return {
        "tokens": shape.tokens,
        "rounds": rounds,
        "tokens_per_second": {v: round(shape.tokens / s, 1) for v, s in seconds.items()},
        "peak_gflops": round(peak / 1e9, 1),
        "of_peak": round(flops / seconds["headroom"] / peak, 3),
        "speed_up": speed_ups(times, "headroom", steps),
    }


def _makers(shape: Shape, peers: list[str]) -> dict[str, Make]:
    """Return every variant; each peer as it comes, and with memory kept as in our jobs."""
    makers: dict[str, Make] = {}
    for how, compiled in {"": False, " compiled": True}.items() if peers else [("", False)]:
        makers[f"headroom{how}"] = partial(_step, headroom, shape, compiled=compiled, keep=True)
        for peer in peers:
            for memory, keep in {"": False, ", memory kept": True}.items():
                variant = partial(_step, PEERS[peer], shape, compiled=compiled, keep=keep)
                makers[f"{peer}{how}{memory}"] = variant
    return makers


def _step(make: Maker, shape: Shape, *, compiled: bool, keep: bool) -> Callable[[], None]:
    alone(keep=keep)
    return step(*make(shape, Batch.drawn(shape), compiled=compiled))


def _products() -> Callable[[], None]:
    alone()
    left, right = torch.randn(2, SIZE, SIZE)

    def run() -> None:
        for _ in range(PRODUCTS):
            left @ right

    return run


if __name__ == "__main__":
    leave(results)
