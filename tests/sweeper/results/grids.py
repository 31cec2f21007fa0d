"""Synthetic sweeps with known results: Figure 1, Theorem 1, and a grid from the command line."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

from tests.sweeper.results.synthetic import Model, Sweep, paper


@dataclass(frozen=True)
class Grid:
    """The sizes of a Figure 1."""

    embeddings: Sequence[int] = (64, 96, 128)
    standard_heads: Sequence[int] = (2, 4, 8, 16)
    fixed_heads: Sequence[int] = (2, 4, 8, 16)
    small: int = 64
    head_size: int = 32


PAPER = Grid(
    (256, 320, 384, 448, 512),
    (4, 8, 16, 32, 64),
    (4, 8, 12, 16, 24, 32, 48, 64, 70),
    small=256,
)


LABELS = {
    "standard": "head size d/h",
    "fixed": "head size fixed",
    "matched": "head size fixed, heads matched to d/h",
}
CLAIMS = ("standard_worsens_beyond", "fixed_keeps_improving", "small_beats_large")


def figure1(
    truth=paper, grid=Grid(), *, seeds=3, noise=0.01, done=lambda arm, model, seed: True
):
    """Return a Figure 1 with known results. `noise` is relative, and depends only on the run."""
    sweep = Sweep(labels=LABELS, claims=CLAIMS)

    def add(arm, model, values=None, match=None):
        measured = {
            seed: truth(model) * (1 + random.Random(f"{model}{seed}").gauss(0, noise))
            if done(arm, model, seed)
            else None
            for seed in range(seeds)
        }
        sweep.add(arm, model, measured, values, match)

    for d, heads in product(grid.embeddings, grid.standard_heads):
        if d % heads == 0:
            values = {"model.embedding_size": d, "model.heads": heads}
            add("standard", Model(d, heads, d // heads), values)
    for heads in grid.fixed_heads:
        add("fixed", Model(grid.small, heads, grid.head_size))
    for d in grid.embeddings:
        if d > grid.small:
            model, match = matched_to(d, grid)
            add("matched", model, match=match)
    return sweep


FEW = Grid((64, 96), (4,), (4,))
few = partial(figure1, grid=FEW, seeds=1)
"""A small Figure 1."""


def matched_to(d, grid):
    """Return the small model nearest in total parameters to the standard model of size `d`."""
    heads = grid.standard_heads[len(grid.standard_heads) // 2]
    target = Model(d, heads, d // heads).size["params_total"]
    candidates = [Model(grid.small, h, grid.head_size) for h in range(1, 4001)]
    model = min(candidates, key=lambda one: abs(one.size["params_total"] - target))
    achieved = model.size["params_total"]
    return model, {
        "to": f"standard embedding_size={d} heads={heads}",
        "count": "params_total",
        "target": target,
        "achieved": achieved,
        "error": achieved / target - 1,
    }


def by_hand(axes):
    """Return the sweep of a grid from the command line."""
    labels, x = {"grid": " x ".join(axes)}, next(iter(axes))
    sweep = Sweep(name="grid", title="lm1b", figure="curves", x=x, labels=labels)
    for index, values in enumerate(product(*axes.values())):
        point = dict(zip(axes, values, strict=True))
        heads, size = (
            point.get("model.heads", 2 + index),
            point.get("model.head_size") or 32,
        )
        sweep.add("grid", Model(64, heads, size), [43.0 - index, 42.5], point)
    return sweep


def one_arm(key, measured, **about):
    """Return a sweep of the arm `fixed`. `measured` maps a value of `key` to each seed's metric."""
    sweep = Sweep(x=key, **about)
    for place, (value, seeds) in enumerate(measured.items()):
        sizes = {"model.heads": 2 + place, "model.head_size": 16, key: value}
        model = Model(64, sizes["model.heads"], sizes["model.head_size"])
        sweep.add("fixed", model, seeds, {key: value})
    return sweep


def theorem1(bidirectional=lambda n: n - 1, causal=lambda n: n // 2, *, seeds=2):
    """Return a Theorem 1 whose errors halve with each head size, and collapse at these knees."""
    sweep = Sweep(
        name="theorem1",
        title="The head size that a context takes",
        metric="test/context_error",
        figure="theorem1",
        x="model.head_size",
        claims=("bidirectional_takes_n_minus_1", "causal_takes_half"),
        labels={"bidirectional": "every key is seen", "causal": "causal mask"},
    )
    # The id of a synthetic run depends on heads, but not on the mask or the length.
    for heads, arm, knee in (
        (2, "bidirectional", bidirectional),
        (1, "causal", causal),
    ):
        for length in (5, 7):
            for size in range(1, length + 1):
                error = 0.5**size * (1e-7 if size >= knee(length) else 1.0)
                draw = random.Random(f"{arm}{length}{size}")
                measured = [error * 10 ** draw.gauss(0, 0.1) for _ in range(seeds)]
                values = {"task.sequence_length": length, "model.head_size": size}
                sweep.add(arm, Model(length, heads, size), measured, values)
    return sweep
