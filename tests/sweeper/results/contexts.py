"""A synthetic Theorem 1: contexts whose knees are known."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.sweeper.results.synthetic import Model, Sweep

Knee = Callable[[int], int]


def theorem1(
    bidirectional: Knee = lambda n: n - 1, causal: Knee = lambda n: n // 2, *, seeds: int = 2
) -> Sweep:
    """Errors that halve from one head size to the next, and collapse at the knees given."""
    sweep = Sweep(
        name="theorem1",
        title="The head size that a context takes",
        metric="test/context_error",
        figure="theorem1",
        x="model.head_size",
        claims=("bidirectional_takes_n_minus_1", "causal_takes_half"),
        labels={"bidirectional": "every key is seen", "causal": "causal mask"},
    )
    for arm, knee in (("bidirectional", bidirectional), ("causal", causal)):
        for length in (5, 7):
            for size in range(1, length + 1):
                error = 0.5**size * (1e-7 if size >= knee(length) else 1.0)
                draw = random.Random(f"{arm}{length}{size}")
                measured = {seed: error * 10 ** draw.gauss(0, 0.1) for seed in range(seeds)}
                values = {"task.sequence_length": length, "model.head_size": size}
                # The mask and the length are no part of a synthetic run's name, so heads are.
                model = Model(length, 1 if arm == "causal" else 2, size)
                sweep.add(arm, values, model, measured)
    return sweep
