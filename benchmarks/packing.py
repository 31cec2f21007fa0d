"""Times what a training step is worth in real tokens: `python -m benchmarks.packing`.

The same sentences through the same model in four formats: packed rows under a mask, as we train; a
row of 256 for each sentence; rows of sentences of like length; and all text in one, cut at 256,
where a sentence sees those before it. One batch of each size is timed, and the whole text then
takes so many of each.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import NormalDist

from benchmarks.measure import Times, arguments, interleaved, leave, spread

if __name__ == "__main__":
    arguments(__doc__)  # --help is answered before torch is imported

import torch

from benchmarks.shapes import SHAPES, SMOKE, Batch, Shape, decoder_loss, step
from models.cross_entropy import IGNORED
from tasks.machine import keep_memory
from tasks.text.packing import FirstFit

MEAN, SIGMA = 29.1, 0.6  # of the lengths of LM1B's sentences in pieces, taken as lognormal
SENTENCES = 20_000
BUCKET = 32  # buckets are this wide

Row = list[int]
"""The lengths of the segments of a row."""
Batches = list[tuple[list[Row], int]]
"""Batches of as many positions each: their rows, and how long a row is."""


def main() -> None:
    """Measure every format and leave a line."""
    options = arguments(__doc__)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    keep_memory()
    [(name, shape)] = SMOKE.items() if options.smoke else [("tiny32", SHAPES["tiny32"])]
    lengths = _lengths(shape.length, 300 if options.smoke else SENTENCES)
    formats = {name: form(lengths, shape) for name, form in FORMATS.items()}
    counts = {name: Counter(width for _, width in batches) for name, batches in formats.items()}
    model = shape.decoder()
    steps = {
        f"{form} {width}": step(model, decoder_loss(model, _batch(rows, width, shape)))
        for form, batches in formats.items()
        for rows, width in reversed(batches)  # the first of a width counts: it is a full one
    }
    rounds = 2 if options.smoke else 7
    times = interleaved(steps, rounds)
    seconds = {form: _whole(times, form, counts[form], rounds) for form in formats}
    positions = {form: sum(len(rows) * w for rows, w in formats[form]) for form in formats}
    leave(
        options.lines,
        "packing",
        {
            "shape": name,
            "sentences": len(lengths),
            "mean_length": round(sum(lengths) / len(lengths), 2),
            "rounds": rounds,
            "real": {form: round(sum(lengths) / positions[form], 4) for form in formats},
            "tokens_per_second": {
                form: round(sum(lengths) / spread(s)["median"], 1) for form, s in seconds.items()
            },
            "speed_up": {
                f"packed over {form}": spread(
                    [b / a for a, b in zip(seconds["packed"], seconds[form], strict=True)]
                )
                for form in formats
                if form != "packed"
            },
        },
    )


def _lengths(longest: int, count: int) -> list[int]:
    """Quantiles of the lengths' distribution, in an order that is always the same."""
    normal = NormalDist(math.log(MEAN) - SIGMA**2 / 2, SIGMA)
    drawn = (math.exp(normal.inv_cdf((i + 0.5) / count)) for i in range(count))
    lengths = [min(max(round(length), 1), longest) for length in drawn]
    order = torch.randperm(count, generator=torch.Generator().manual_seed(0)).tolist()
    return [lengths[place] for place in order]


def _packed(lengths: Sequence[int], shape: Shape) -> Batches:
    packer, rows = FirstFit(shape.length), []
    for number, length in enumerate(lengths):
        rows.append(packer.add([number] * length))
    found = [row for row in [*rows, *packer.rest()] if row is not None]
    return _in_batches([list(Counter(row).values()) for row in found], shape.length, shape)


def _padded(lengths: Sequence[int], shape: Shape) -> Batches:
    return _in_batches([[length] for length in lengths], shape.length, shape)


def _bucketed(lengths: Sequence[int], shape: Shape) -> Batches:
    batches: Batches = []
    buckets: dict[int, list[Row]] = {}
    for length in lengths:
        width = min(math.ceil(length / BUCKET) * BUCKET, shape.length)
        buckets.setdefault(width, []).append([length])
    for width, rows in sorted(buckets.items()):
        batches += _in_batches(rows, width, shape)
    return batches


def _cut(lengths: Sequence[int], shape: Shape) -> Batches:
    rows = [[shape.length]] * math.ceil(sum(lengths) / shape.length)
    return _in_batches(rows, shape.length, shape)


FORMATS: dict[str, Callable[[Sequence[int], Shape], Batches]] = {
    "packed": _packed,
    "padded": _padded,
    "buckets": _bucketed,
    "concatenated and cut": _cut,
}


def _in_batches(rows: list[Row], width: int, shape: Shape) -> Batches:
    """Batches of at most the shape's positions; the last of a width may have fewer rows."""
    size = shape.tokens // width
    return [(rows[first : first + size], width) for first in range(0, len(rows), size)]


def _batch(rows: list[Row], width: int, shape: Shape) -> Batch:
    """The tensors of a batch, of random words."""
    tokens_BT = torch.randint(2, shape.vocabulary_size, (len(rows), width))
    segments_BT = torch.zeros(len(rows), width, dtype=torch.long)
    positions_BT = torch.zeros_like(segments_BT)
    for row, lengths in enumerate(rows):
        start = 0
        for number, length in enumerate(lengths, start=1):
            segments_BT[row, start : start + length] = number
            positions_BT[row, start : start + length] = torch.arange(length)
            start += length
    targets_BT = tokens_BT.roll(-1, 1).masked_fill(segments_BT == 0, IGNORED)
    return Batch(tokens_BT, targets_BT, segments_BT, positions_BT)


def _whole(times: Times, form: str, counts: Counter[int], rounds: int) -> list[float]:
    """Seconds that the whole text takes in a format, by each round's times."""
    return [
        sum(times[f"{form} {width}"][number] * count for width, count in counts.items())
        for number in range(rounds)
    ]


if __name__ == "__main__":
    main()
