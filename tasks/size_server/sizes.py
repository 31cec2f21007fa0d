"""The size of a run: the parameters, FLOPs and KV cache of its model.

To measure a size, a model must be built, which is too slow for every run. Therefore the sizes of
most models are interpolated. The numbers of parameters and of FLOPs are polynomials in the
dimensions of a model. They are at most quadratic in embedding_size, heads and head_size, and affine
in feedforward_size. The size server builds as many models as such a polynomial has coefficients,
and applies Lagrange's interpolation. As a check, the polynomials must also give the exact counts of
one larger model, and of all models built before. If they do not, every model is built.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
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
"""The result of `counts`: numbers of parameters, FLOPs and bytes, by name."""
Place = tuple[int, ...]
"""The dimensions of a model, in the order of NODES."""

NODES: dict[str, tuple[int, ...]] = {
    "embedding_size": (1, 2, 3),
    "heads": (1, 2, 3),
    "head_size": (1, 2, 3),
    "feedforward_size": (1, 2),
}
"""The grid of models for the interpolation, as multiples of the dimensions of the first model.

The multiples are valid dimensions: an option that divides a dimension, such as `key_value_heads`,
also divides its multiples.
"""
BUILT_FIRST = math.prod(map(len, NODES.values()))
"""Begin to interpolate after this many models of the same kind have been built.

The grid for the interpolation requires as many models again. So the interpolation saves time only
if there are more models.
"""
BEYOND = 5
"""To check the polynomials, build a model whose dimensions are this multiple of the first's."""


class CountPolynomials:
    """A counter of the parameters and FLOPs of models, which does not build every model.

    Two models are of the same kind if their configs differ only in dimensions. The first models of
    a kind are built. The counts of later models are interpolated.

    Args:
        build: a function that builds the model of a config and returns its counts, such as
            `counts`.
    """

    def __init__(self, build: Callable[[RunConfig], Counts]) -> None:
        self._build = build
        # The counts of the models that were built, by kind of model and dimensions.
        self._built: dict[str, dict[Place, Counts]] = {}
        # The polynomials through these counts, by kind of model. None if none fit.
        self._polynomials: dict[str, Polynomials | None] = {}

    def counts(self, run: RunConfig) -> Counts:
        """Return the counts of a run's model. If they cannot be interpolated, build the model."""
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
        """Build the models of the grid (see NODES). Return the polynomials through their counts.

        Return None if a model cannot be built. To check the polynomials, compare them to the counts
        of one larger model and of all models that were built before. If one differs, return None.
        """
        origin = next(iter(built))

        def count(place: Place) -> Counts:
            sizes = dict(zip(NODES, place, strict=True))
            model = run.model.model_copy(update=sizes)
            return self._build(run.model_copy(update={"model": model}))

        larger = _multiplied(origin, [BEYOND] * len(origin))
        grid = itertools.product(*NODES.values())
        try:
            found = Polynomials(
                origin, [count(_multiplied(origin, node)) for node in grid]
            )
            checks = {**built, larger: count(larger)}
        except (UserError, ValueError):
            # The model does not support one of these sizes.
            return None
        fits = all(found.at(place) == counts for place, counts in checks.items())
        return found if fits else None


def _multiplied(place: Place, multiples: Sequence[int]) -> Place:
    return tuple(x * times for x, times in zip(place, multiples, strict=True))


class Polynomials:
    """Polynomials in the dimensions of a model, one for each count.

    Args:
        origin: the dimensions of the first model. The grid consists of the models whose dimensions
            are the multiples in NODES of these dimensions.
        on_grid: the counts of the models on the grid, in the order of `itertools.product`.
    """

    def __init__(self, origin: Place, on_grid: Sequence[Counts]) -> None:
        self._origin, self._names = origin, list(on_grid[0])
        rows = [list(counts.values()) for counts in on_grid]
        # The first four axes are the dimensions in NODES, and the last is the name of the count.
        # Use Python's integers (dtype=object), because they do not overflow.
        shape = (*map(len, NODES.values()), -1)
        self._on_grid = np.array(rows, dtype=object).reshape(shape)

    def at(self, place: Place) -> Counts | None:
        """Return the counts of a model with the dimensions `place`.

        Return None if a polynomial's value is not a whole number.
        """
        values = self._on_grid
        for nodes, x, unit in zip(NODES.values(), place, self._origin, strict=True):
            basis = np.array(_lagrange_basis(nodes, Fraction(x, unit)))
            values = np.tensordot(basis, values, axes=1)
        if any(value.denominator > 1 for value in values):
            return None
        return dict(zip(self._names, map(int, values), strict=True))


def _lagrange_basis(nodes: Sequence[int], x: Fraction) -> list[Fraction]:
    """Return the values at x of Lagrange's basis polynomials, one for each node."""
    basis = []
    for node in nodes:
        factors = [(x - other) / (node - other) for other in nodes if other != node]
        basis.append(math.prod(factors, start=Fraction(1)))
    return basis


def counts(run: RunConfig) -> dict[str, int]:
    """Build the model of a run, and count its parameters, KV-cache bytes per token, and FLOPs.

    Returns:
        A dict with the results of `parameter_counts` and `cache_bytes`, and the keys:

        - forward_flops: the FLOPs of a forward pass on the task's `example`.
        - positions: the number of positions of this example.

    Raises:
        UserError: the task cannot call the model, or its forward pass reads labels.
    """
    device = run.model.counted_on
    with torch.device(device):
        # Use single precision, like the tensors of `example`.
        module = module_of(run).float().eval()
        example = module.example()
    inputs = {
        name: value for name, value in example.items() if name not in module.labels
    }
    try:
        flops = forward_flops(lambda: module(inputs))
    except KeyError as missing:
        if missing.args[0] not in module.labels:
            raise
        expected = f"a task whose forward pass reads no labels, but it reads {missing}"
        raise invalid_value(
            "task.name", run.task.name, expected, "fix the task's code"
        ) from None
    except Exception as error:  # the model may be a user's code
        raised = message_of(error)
        expected = (
            f"a model that the task {run.task.name} can call on the {device} device, but the call "
            f"raised {raised}"
        )
        remedy = "choose other sizes or options, or fix the code"
        raise invalid_value(*run.model.called, expected, remedy) from error
    positions = module.positions(example)
    counted = {**parameter_counts(module.model), **cache_bytes(module.model)}
    return {**counted, "forward_flops": flops, "positions": positions}


def size(
    config: Mapping[str, Any], counted: Callable[[RunConfig], Counts] = counts
) -> dict[str, int | float]:
    """Return the size of a run as a dict.

    The dict has the results of `parameter_counts` and `cache_bytes`, and the keys:

    - tokens: the number of training tokens.
    - flops_per_token: the training FLOPs per token. Training costs three times the FLOPs of a
      forward pass: the forward pass, the gradients of the inputs and the gradients of the weights.
      For a pre-training, they are the FLOPs of the first phase.
    - head_size: the size of every head. The key is missing if heads differ in size.
    - width: the sum of the head sizes of a layer, averaged over the layers. It includes the rotary
      dimensions that latent attention adds to each head.

    Args:
        config: the config of the run.
        counted: a function that returns the same as `counts`.

    Raises:
        UserError: the config is invalid, or the model breaks its contract.
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
    # The option `rotary_size` of latent attention adds dimensions to each head. Other variants have
    # no option of this name.
    rotary = model.heads * getattr(attention, "rotary_size", 0)
    layers = getattr(model, "layers", 1)
    total = total_width(model.resolved_head_size, model.heads, layers)
    # Layers may differ in width. Keep the mean an integer if it is one.
    mean_width = total / layers if total % layers else total // layers
    one_size = model.one_head_size
    return {
        **found,
        "flops_per_token": 3 * flops // positions,
        "tokens": data_of(run).tokens_seen(run.trainer.steps),
        **({} if one_size is None else {"head_size": one_size}),
        "width": mean_width + rotary,
    }
