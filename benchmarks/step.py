"""Times a training step of each shape beside its peers: `python -m benchmarks.step`."""

from __future__ import annotations

from pathlib import Path
from statistics import median

from benchmarks.measure import arguments, interleaved, leave, present, speed_up

if __name__ == "__main__":
    arguments(__doc__)  # --help is answered before torch is imported

import torch

from benchmarks.shapes import (
    SHAPES,
    SMOKE,
    Batch,
    Shape,
    alone,
    headroom,
    mistral,
    step,
    training_flops,
    x_transformers,
)

PEERS = {"transformers": mistral, "x_transformers": x_transformers}
LOOPS = 3  # matrix products in a round that measures the peak
PEAK = 1024  # their size


def main() -> None:
    """Measure every shape and leave a line each."""
    options = arguments(__doc__)
    alone()
    shapes = SMOKE if options.smoke else SHAPES
    peers = [] if options.smoke else [name for name in PEERS if present(name)]
    for name, shape in shapes.items():
        measure(name, shape, peers, rounds=2 if options.smoke else 7, lines=options.lines)


def measure(name: str, shape: Shape, peers: list[str], rounds: int, lines: Path) -> None:
    """Leave tokens per second, the share of the peak, and our speed over each peer's."""
    batch = Batch.drawn(shape)
    flops = training_flops(shape.decoder(), batch)
    makers = {"headroom": headroom, **{peer: PEERS[peer] for peer in peers}}
    steps = {}
    for compiled in (False, True) if peers else (False,):
        for maker, make in makers.items():
            variant = f"{maker} compiled" if compiled else maker
            steps[variant] = step(*make(shape, batch, compiled=compiled))
    left, right = torch.randn(2, PEAK, PEAK)

    def products() -> None:
        for _ in range(LOOPS):
            left @ right

    times = interleaved({**steps, "peak": products}, rounds)
    peak = LOOPS * 2 * PEAK**3 / median(times["peak"])
    seconds = {variant: median(times[variant]) for variant in steps}
    leave(
        lines,
        "step",
        {
            "shape": name,
            "tokens": shape.tokens,
            "rounds": rounds,
            "tokens_per_second": {v: round(shape.tokens / s, 1) for v, s in seconds.items()},
            "peak_gflops": round(peak / 1e9, 1),
            "of_peak": round(flops / seconds["headroom"] / peak, 3),
            "speed_up": {
                f"{ours} over {other}": speed_up(times, ours, other)
                for ours in steps
                if ours.startswith("headroom")
                for other in steps
                if other != ours
            },
        },
    )


if __name__ == "__main__":
    main()
