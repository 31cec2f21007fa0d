"""Sizes of many models of one kind, from a few that are built.

A number of parameters or of FLOPs is a sum of products of a model's dimensions: a polynomial in
them, at most quadratic in embedding_size, heads and head_size and affine in feedforward_size. The
counts of as many built models as it has coefficients fix it; no formula is written down here. It is
used only where it also gives, exactly, the counts of a larger model and every count that was built
before it was needed.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from models.head_sizes import total_width
from models.measure import cache_bytes, forward_flops, parameter_counts
from sweeper.store.errors import UserError, invalid_value
from sweeper.store.files import canonical
from tasks.config.architecture import TransformerSection, WithAttention
from tasks.config.sections import RunConfig
from tasks.parse import data_of, module_of, parse
from tasks.size_server import attention_contract, model_contract
from tasks.training.causes import message_of

Counts = dict[str, int]
Place = tuple[int, ...]

NODES: dict[str, tuple[int, ...]] = {
    "embedding_size": (1, 2, 3),
    "heads": (1, 2, 3),
    "head_size": (1, 2, 3),
    "feedforward_size": (1, 2),
}
"""Of a model that was built. Sizes that have to divide one another do so in its multiples too."""
BUILT_FIRST = math.prod(map(len, NODES.values()))
"""The number of models of a kind built first: they check the polynomials, which need as many."""
BEYOND = 5
"""Times the dimensions of the first: a model that no node and perhaps nothing built is like."""


class CountPolynomials:
    """Counts of configs: built at first, and by polynomials once many are asked for."""

    def __init__(self, build: Callable[[RunConfig], Counts]) -> None:
        self._build = build
        # By all of a config but its dimensions:
        self._built: dict[str, dict[Place, Counts]] = {}
        self._polynomials: dict[str, Polynomials | None] = {}

    def counts(self, run: RunConfig) -> Counts:
        """Return what `build(run)` would."""
        head_size = run.model.one_head_size
        if not isinstance(run.model, TransformerSection) or head_size is None:
            return self._build(run)
        model = run.model.model_dump()
        rest = {key: value for key, value in model.items() if key not in NODES}
        name = canonical([rest, run.task.model_dump()])
        built = self._built.setdefault(name, {})
        place = (
            run.model.embedding_size,
            run.model.heads,
            head_size,
            run.model.feedforward_size,
        )
        if place not in built and len(built) >= BUILT_FIRST:
            if name not in self._polynomials:
                self._polynomials[name] = self._fitted(run, built)
            polynomials = self._polynomials[name]
            if polynomials and (found := polynomials.at(place)):
                return found
        if place not in built:
            built[place] = self._build(run)
        return built[place]

    def _fitted(self, run: RunConfig, built: dict[Place, Counts]) -> Polynomials | None:
        """Fit polynomials to counts at the nodes; return None if they miss a built count."""
        origin = next(iter(built))
        axes = zip(origin, NODES.values(), strict=True)
        nodes = [[x * times for times in multiples] for x, multiples in axes]
        larger, at = tuple(BEYOND * x for x in origin), {}
        try:
            for place in (*itertools.product(*nodes), larger):
                model = run.model.model_copy(
                    update=dict(zip(NODES, place, strict=True))
                )
                at[place] = self._build(run.model_copy(update={"model": model}))
        except (UserError, ValueError):  # a variant without a model there
            return None
        checks = {**built, larger: at.pop(larger)}
        found = Polynomials(nodes, at)
        known = all(found.at(place) == counts for place, counts in checks.items())
        return found if known else None


class Polynomials:
    """The polynomials, one for each count, with these values at the nodes of a grid."""

    def __init__(
        self, nodes: Sequence[Sequence[int]], at_nodes: Mapping[Place, Counts]
    ) -> None:
        self._nodes, self._at_nodes = nodes, at_nodes

    def at(self, place: Place) -> Counts | None:
        """Return the counts at a place; None if they are not whole numbers."""
        axes = [_weights(nodes, x) for nodes, x in zip(self._nodes, place, strict=True)]
        whole = math.prod(times for times, _ in axes)
        totals: Counter[str] = Counter()
        for node, counts in self._at_nodes.items():
            weight = math.prod(axis[x] for (_, axis), x in zip(axes, node, strict=True))
            totals.update({name: weight * count for name, count in counts.items()})
        if any(total % whole for total in totals.values()):
            return None
        return {name: total // whole for name, total in totals.items()}


def _weights(nodes: Sequence[int], x: int) -> tuple[int, dict[int, int]]:
    """Return Lagrange's basis polynomials at x by node, scaled by the first number to be whole."""
    others = {node: [other for other in nodes if other != node] for node in nodes}
    apart = {node: math.prod(node - other for other in others[node]) for node in nodes}
    times = math.lcm(*apart.values())
    return times, {
        node: times // apart[node] * math.prod(x - other for other in others[node])
        for node in nodes
    }


def counts(run: RunConfig) -> dict[str, int]:
    """Return parameter and cache counts, and the FLOPs and positions of a forward pass."""
    device = run.model.counted_on
    with torch.device(device):
        module = module_of(run).float().eval()  # as the example
        example = module.example()
    inputs = {
        name: value for name, value in example.items() if name not in module.labels
    }
    try:
        flops = forward_flops(lambda: module(inputs))
    except KeyError as missing:
        if missing.args[0] not in module.labels:
            raise
        expected = (
            f"a forward pass that reads no labels, but it reads {missing} of a batch"
        )
        raise invalid_value(
            "task.name", run.task.name, expected, "mend its code"
        ) from None
    except Exception as error:  # anybody's code runs here
        raised = message_of(error)
        expected = (
            f"a model that can be called on the {device} device, but it raised {raised}"
        )
        remedy = "choose other sizes or options, or mend its code"
        raise invalid_value(*run.model.called, expected, remedy) from error
    positions = module.positions(example)
    counted = {**parameter_counts(module.model), **cache_bytes(module.model)}
    return {**counted, "forward_flops": flops, "positions": positions}


def size(
    config: Mapping[str, Any], counted: Callable[[RunConfig], Counts] = counts
) -> dict[str, int | float]:
    """Return counts of parameters, of training FLOPs and cache per position, and tokens and heads.

    UserError if the config is invalid. `counted` returns what `counts` does.

    The head size is left out where heads differ. A training step computes the matrix products of a
    forward pass three times: forward, for the gradients of the inputs, for those of the weights.
    """
    run = parse(config)
    model = run.model
    length = getattr(run.task, "sequence_length", 0)
    if isinstance(model, WithAttention):
        attention_contract.check(model, length, run.trainer.precision)
    found = dict(counted(run))
    model_contract.check(run)
    flops, positions = found.pop("forward_flops"), found.pop("positions")
    attention = getattr(model, "attention", None)
    rotary = model.heads * getattr(
        attention, "rotary_size", 0
    )  # apart, of latent attention
    heads: dict[str, int | float]
    if (head_size := model.one_head_size) is not None:
        heads = {"head_size": head_size, "width": model.heads * head_size + rotary}
    else:  # the mean width of the layers
        assert isinstance(model, TransformerSection)
        total = total_width(model.resolved_head_size, model.heads, model.layers)
        whole, rest = divmod(total, model.layers)
        heads = {"width": (total / model.layers if rest else whole) + rotary}
    return {
        **found,
        "flops_per_token": 3 * flops // positions,
        "tokens": data_of(run).tokens_seen(run.trainer.steps),
        **heads,
    }
