"""Sizes of many models of one kind, from a few that are built.

A number of parameters or of FLOPs is a sum of products of a model's dimensions: a polynomial in
them, at most quadratic in embedding_size and heads and affine in head_size and feedforward_size.
The counts of as many built models as it has coefficients fix it; no formula is written down here.
It is used only where it also gives, exactly, every count that was built before it was needed.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from models.head_sizes import total_width
from models.measure import forward_flops, parameter_counts
from sweeper.store.errors import UserError
from sweeper.store.files import canonical
from tasks.config.architecture import TransformerSection
from tasks.config.sections import RunConfig
from tasks.parse import parse
from tasks.prepare import task_of
from tasks.size_server import attention_contract

Counts = dict[str, int]
Place = tuple[int, ...]

NODES: dict[str, tuple[int, ...]] = {
    "embedding_size": (12, 20, 28),
    "heads": (2, 3, 5),
    "head_size": (6, 10),
    "feedforward_size": (8, 14),
}
BUILT_FIRST = math.prod(map(len, NODES.values()))
"""Models of a kind that are built first: as many as polynomials cost, which they check."""


class CountPolynomials:
    """Counts of configs, by building them at first and by polynomials where many are asked for."""

    def __init__(self, build: Callable[[RunConfig], Counts]) -> None:
        self._build = build
        self._kinds: dict[str, _Kind] = {}

    def counts(self, run: RunConfig) -> Counts:
        """What `build(run)` returns, or would."""
        head_size = run.model.one_head_size
        if not isinstance(run.model, TransformerSection) or head_size is None:
            return self._build(run)
        model = run.model.model_dump()
        rest = {key: value for key, value in model.items() if key not in NODES}
        name = canonical([rest, run.task.model_dump()])
        kind = self._kinds.setdefault(name, _Kind({}, None))
        place = (run.model.embedding_size, run.model.heads, head_size, run.model.feedforward_size)
        if place not in kind.built and len(kind.built) >= BUILT_FIRST:
            if kind.found is None:
                kind = self._kinds[name] = _Kind(kind.built, self._fitted(run, kind.built))
            if kind.found is not None and (found := kind.found.at(place)) is not None:
                return found
        if place not in kind.built:
            kind.built[place] = self._build(run)
        return kind.built[place]

    def _fitted(self, run: RunConfig, built: dict[Place, Counts]) -> Polynomials:
        """Those through the counts at the nodes; none if they miss a count that was built."""
        try:
            at_nodes = {
                place: self._build(_reshaped(run, place))
                for place in itertools.product(*NODES.values())
            }
        except (UserError, ValueError):  # a variant that has no model there
            return Polynomials({})
        found = Polynomials(at_nodes)
        known = all(found.at(place) == counts for place, counts in built.items())
        return found if known else Polynomials({})


class _Kind(NamedTuple):
    """What is known of the configs that differ in their dimensions alone."""

    built: dict[Place, Counts]
    found: Polynomials | None


class Polynomials:
    """A polynomial for each count: the one that has these values at the nodes."""

    def __init__(self, at_nodes: dict[Place, Counts]) -> None:
        self._at_nodes = at_nodes

    def at(self, place: Place) -> Counts | None:
        """The counts at a place; None where they are no whole numbers, or nothing is known."""
        axes = [_weights(nodes, x) for nodes, x in zip(NODES.values(), place, strict=True)]
        whole = math.prod(times for times, _ in axes)
        totals: Counter[str] = Counter()
        for node, counts in self._at_nodes.items():
            weight = math.prod(axis[x] for (_, axis), x in zip(axes, node, strict=True))
            totals.update({name: weight * count for name, count in counts.items()})
        if any(total % whole for total in totals.values()):
            return None
        return {name: total // whole for name, total in totals.items()} or None


def _weights(nodes: Sequence[int], x: int) -> tuple[int, dict[int, int]]:
    """Lagrange's: for each node the polynomial that is 1 there and 0 at the others, at x.

    They are whole numbers, being that many times as large as the first number says.
    """
    others = {node: [other for other in nodes if other != node] for node in nodes}
    apart = {node: math.prod(node - other for other in others[node]) for node in nodes}
    times = math.lcm(*apart.values())
    return times, {
        node: times // apart[node] * math.prod(x - other for other in others[node])
        for node in nodes
    }


def _reshaped(run: RunConfig, place: Place) -> RunConfig:
    sizes: dict[str, Any] = dict(zip(NODES, place, strict=True))
    return run.model_copy(update={"model": run.model.model_copy(update=sizes)})


def size(
    config: Mapping[str, Any], counted: Callable[[RunConfig], dict[str, int]] | None = None
) -> dict[str, int]:
    """Return parameter counts, training FLOPs per position, positions trained on, head size, width.

    The head size is left out where heads differ.

    A training step computes the matrix products of a forward pass three times: once forward, once
    for the gradients of what goes in and once for those of the weights. Attention counts in full.

    Args:
        config: of a run.
        counted: what gives the counts of a config; `counts` if it is not given.

    Raises:
        UserError: the config is wrong anywhere, one sentence.
    """
    run = parse(config)
    attention_contract.check(run.model)
    found = dict((counted or counts)(run))
    flops, positions = found.pop("forward_flops"), found.pop("positions")
    return {
        **found,
        "flops_per_token": 3 * flops // positions,
        "tokens": task_of(run).data.tokens_seen(run.trainer.steps),
        **_heads(run),
    }


def _heads(run: RunConfig) -> dict[str, int]:
    """`head_size` where all heads have one, and the `width` of a layer, or the layers' mean."""
    model = run.model
    if (head_size := model.one_head_size) is not None:
        return {"head_size": head_size, "width": model.heads * head_size}
    assert isinstance(model, TransformerSection)
    return {
        "width": total_width(model.resolved_head_size, model.heads, model.layers) // model.layers
    }


def counts(run: RunConfig) -> dict[str, int]:
    """Return the parameter counts, and the FLOPs of a forward pass over so many positions."""
    task = task_of(run)
    with torch.device("meta"):
        model: Any = task.build()
        example = task.example()
    model.eval()
    return {
        **parameter_counts(model),
        "forward_flops": forward_flops(lambda: task.outputs(model, example)),
        "positions": task.positions(example),
    }
