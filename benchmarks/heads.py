"""Times a training step of the small decoder with 4 to 70 heads: `python -m benchmarks.heads`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from statistics import median

from benchmarks.measure import Facts, arguments, interleaved, leave

if __name__ == "__main__":
    arguments(__doc__)  # --help is answered before torch is imported

from benchmarks.shapes import SHAPES, SMOKE, Batch, alone, decoder_loss, step, training_flops

HEADS = (4, 8, 16, 32, 70)


def results(smoke: bool) -> Iterator[Facts]:
    alone()
    [shape] = SMOKE.values() if smoke else [SHAPES["tiny32"]]
    steps, flops = {}, {}
    for heads in HEADS[:2] if smoke else HEADS:
        wider = replace(shape, heads=heads)
        batch, model = Batch.drawn(wider), wider.decoder()
        steps[str(heads)] = step(model, decoder_loss(model, batch))
        flops[str(heads)] = training_flops(model, batch)
    rounds = 2 if smoke else 5
    times = {heads: median(values) for heads, values in interleaved(steps, rounds).items()}
    yield {
        "rounds": rounds,
        "ms": {heads: round(1e3 * seconds, 1) for heads, seconds in times.items()},
        "gflops_per_second": {h: round(flops[h] / s / 1e9, 1) for h, s in times.items()},
    }


if __name__ == "__main__":
    leave(results)
