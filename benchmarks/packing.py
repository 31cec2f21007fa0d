"""Times what a training step is worth in real tokens: `python -m benchmarks.packing`.

The same sentences through the same model in four formats: packed rows under a mask, as we train; a
row of 256 for each sentence; rows of sentences of like length; and all text in one, cut at 256,
where a sentence sees those before it. One batch of each size is timed, and the whole text then
takes so many of each.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from benchmarks.measure import Facts, Times, arguments, interleaved, leave, speed_ups, spread

if __name__ == "__main__":
    arguments(__doc__)  # --help is answered before torch is imported

from benchmarks.sentences import Row, lengths, packed
from benchmarks.shapes import SHAPES, SMOKE, Batch, Shape, alone, decoder_loss, step

SENTENCES = 20_000
BUCKET = 32  # buckets are this wide

Batches = list[tuple[list[Row], int]]
"""Batches of as many positions each: their rows, and how long a row is."""


def results(smoke: bool) -> Iterator[Facts]:
    alone()
    [(name, shape)] = SMOKE.items() if smoke else [("tiny32", SHAPES["tiny32"])]
    sentences = lengths(shape.length, 300 if smoke else SENTENCES)
    formats = {name: form(sentences, shape) for name, form in FORMATS.items()}
    counts = {name: Counter(width for _, width in batches) for name, batches in formats.items()}
    model = shape.decoder()
    steps = {
        f"{form} {width}": step(model, decoder_loss(model, Batch.of(rows, width, shape)))
        for form, batches in formats.items()
        for rows, width in reversed(batches)  # the first of a width counts: it is a full one
    }
    rounds = 2 if smoke else 7
    times = interleaved(steps, rounds)
    seconds = {form: _whole(times, form, counts[form], rounds) for form in formats}
    positions = {form: sum(len(rows) * w for rows, w in formats[form]) for form in formats}
    yield {
        "shape": name,
        "sentences": len(sentences),
        "mean_length": round(sum(sentences) / len(sentences), 2),
        "rounds": rounds,
        "real": {form: round(sum(sentences) / positions[form], 4) for form in formats},
        "tokens_per_second": {
            form: round(sum(sentences) / spread(s)["median"], 1) for form, s in seconds.items()
        },
        "speed_up": speed_ups(seconds, "packed", formats),
    }


def _packed(lengths: Sequence[int], shape: Shape) -> Batches:
    return _in_batches(packed(lengths, shape.length), shape.length, shape)


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


def _whole(times: Times, form: str, counts: Counter[int], rounds: int) -> list[float]:
    """Seconds that the whole text takes in a format, by each round's times."""
    return [
        sum(times[f"{form} {width}"][number] * count for width, count in counts.items())
        for number in range(rounds)
    ]


if __name__ == "__main__":
    leave(results)
