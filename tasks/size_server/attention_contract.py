"""The contract of attention variants, which is checked when a run is planned.

The variant of a plugin may have faults. For example, if it ignores the mask, the model sees the
tokens that it must predict, and wins every comparison.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from models.attention_map import head_measures
from models.head_sizes import sizes_by_layer
from models.mask import attention_mask
from models.rotation import Rotation
from sweeper.store.errors import invalid_value, spelled
from sweeper.store.files import canonical
from tasks.config.architecture import KEY, WithAttention
from tasks.training.causes import message_of

# The segment of each position in a short packed row. Variants are checked on this row. Segment 0 is
# padding.
_SEGMENTS = (1, 1, 1, 1, 2, 2, 2, 2, 0, 0)
# Also check a row of 64 positions. A variant that computes in blocks may have faults that a row
# shorter than a block does not show.
_LONG = (*[1] * 40, *[2] * 16, *[0] * 8)
# To check _SEGMENTS or _LONG, change about this many of its positions, one at a time.
_CHANGED = 20
# Change fewer positions of a row that is as long as the run's rows, because it may be long.
_CHANGED_OF_OWN = 3
# If the run's rows are longer than this, check rows of this length instead.
_LONGEST = 2048
# Draw the new input at a changed position with this standard deviation. It is large, so that even a
# small attention weight on the position changes the outputs.
_LOUD = 10.0
# The tolerance for rounding errors in each precision, as a share of the largest output.
_ROUNDING = {
    "bf16-mixed": 1e-2,
    "32-true": 1e-5,
    "64-true": 1e-5,
}
# The budget for checks on rows as long as the run's, as layers x positions x embedding_size. It
# allows about ten seconds. After that, a layer that resembles a checked one (`_shape_class`) is
# built, but not checked.
_WORK = 1 << 20
_checked: set[object] = set()


def check(section: WithAttention, length: int = 0, precision: str = "32-true") -> None:
    """Check the attention variant that `section` names, at each size that the layers have.

    A size that has already been checked with the same options is skipped.

    Args:
        section: the section `model` of a run's config.
        length: the number of positions in a row of the run, or 0 if its rows differ in length.
        precision: `trainer.precision` of the run.

    Raises:
        UserError: the variant does not support these sizes, or breaks the contract.
    """
    rotated = getattr(section, "position_encoding", None) == "rotary"
    options = canonical([section.attention.model_dump(), rotated, length, precision])
    general = [(_SEGMENTS, _CHANGED), (_LONG, _CHANGED)]
    as_long = [(row, _CHANGED_OF_OWN) for row in _own_rows(length)]
    for sizes in _layer_sizes(section):
        if (options, sizes) in _checked:
            continue
        shape_class = _shape_class(*sizes)
        rows = general + as_long
        if (options, shape_class) in _checked:
            cheap = len(_checked) * length * section.embedding_size < _WORK
            rows = as_long if cheap else []
        _check_layer(section, sizes, rows, rotated=rotated, precision=precision)
        _checked.update({(options, sizes), (options, shape_class)})


def _shape_class(embedding_size: int, heads: int, head_size: int) -> tuple[object, ...]:
    """Return a key for a layer. In layers with equal keys, a variant probably has the same faults.

    After one layer has passed, `check` does fewer checks on other layers with the same key.

    Returns:
        A tuple of four answers:

        - Does the layer have exactly one head?
        - Is its number of heads a power of 2?
        - Is its head size odd?
        - Is heads * head_size equal to the embedding size?
    """
    power_of_2 = heads & (heads - 1) == 0
    fills = heads * head_size == embedding_size
    return heads == 1, power_of_2, head_size % 2, fills


def _check_layer(
    section: WithAttention,
    sizes: tuple[int, int, int],
    rows: Sequence[tuple[Sequence[int], int]],
    *,
    rotated: bool,
    precision: str,
) -> None:
    """Raise UserError if a layer of these sizes breaks the contract on one of the `rows`.

    Args:
        sizes: embedding_size, heads and head_size.
        rows: a pair for each row to check: the segment of each position, and the number of
            positions to change.
    """
    name, build = section.attention.name, section.attention.builder()
    try:
        with torch.device("meta"):
            build(*sizes, bias=False, dropout=0.0)
    except ValueError as error:  # the variant does not support these sizes or options
        keys = ("embedding_size", "heads", "head_size")
        options = section.attention.model_dump(exclude={"name"})
        given = {**dict(zip(keys, sizes, strict=True)), **options}
        words = ", ".join(f"{key}={spelled(value)}" for key, value in given.items())
        why = " ".join(str(error).split())
        expected = f"a variant that supports {words} ({why})"
        remedy = "choose other sizes or options"
        raise invalid_value(KEY, name, expected, remedy) from None
    except Exception as error:  # the variant may be a user's code
        raise _raised(name, error) from error

    for segments, most in rows:
        try:
            fault = behaviour_fault(
                build,
                *sizes,
                rotated=rotated,
                segments=segments,
                most=most,
                precision=precision,
            )
        except Exception as error:
            raise _raised(name, error) from error
        if fault:
            raise invalid_value(KEY, name, fault, "fix the variant's code")


def _own_rows(length: int) -> list[tuple[int, ...]]:
    """Return two packed rows: one as long as the run's rows, and one that is one position shorter.

    So one length is even and the other is odd. Leave out rows with fewer than two positions. A row
    of four or more positions has two segments of at least two positions each, because a rotation
    changes nothing at the first position of a segment.
    """
    rows = []
    for own in (min(length, _LONGEST), min(length, _LONGEST) - 1):
        first = own // 2 if own >= 4 else own
        rows.append((*[1] * first, *[2] * (own - first)))
    return [row for row in rows if len(row) > 1]


def _layer_sizes(section: WithAttention) -> list[tuple[int, int, int]]:
    """Return the distinct (embedding_size, heads, head_size) of the model's attention modules.

    A layer with heads of several sizes has one module for each size.
    """
    groups: set[tuple[int, int]] = set()  # pairs (number of heads, head size)
    for sizes in sizes_by_layer(
        section.resolved_head_size, getattr(section, "layers", 1)
    ):
        every = [sizes] * section.heads if isinstance(sizes, int) else sizes
        groups |= {(heads, size) for size, heads in Counter(every).items()}
    return [(section.embedding_size, heads, size) for heads, size in sorted(groups)]


def _raised(name: str, error: Exception) -> Exception:
    expected = (
        "a module that can be built and called as CONTRIBUTING.md describes, also on the meta "
        f"device, but it raised {message_of(error)}"
    )
    return invalid_value(KEY, name, expected, "fix the variant's code")


def _rotation(layer: Any, segments: Sequence[int]) -> dict[str, Rotation]:
    """Return {"rotation": ...}: the keyword argument that a decoder passes to `layer`."""
    positions_BT = torch.tensor(
        [[segments[:t].count(s) for t, s in enumerate(segments)]]
    )
    # Only an even number of dimensions can be rotated. If the size is odd, do not rotate the last.
    size = layer.rotary_size
    return {"rotation": Rotation(positions_BT, {size: size - size % 2}, base=10.0)}


def behaviour_fault(
    build: Callable[..., nn.Module],
    embedding_size: int,
    heads: int,
    head_size: int,
    *,
    rotated: bool = False,
    segments: Sequence[int] = _SEGMENTS,
    most: int = _CHANGED,
    precision: str = "32-true",
) -> str | None:
    """Return a description of the first rule of the contract that a layer breaks, or None.

    The description begins with what the rule expects, for example "finite outputs, but some are NaN
    or infinite". The rules:

    - Outputs are finite and have the shape of the inputs, and `head_measures` works.
    - An output depends only on positions that the mask allows, and not on other rows.
    - Without dropout, outputs are equal in training and in evaluation.
    - A new layer that loads the state_dict of another layer gives the same outputs.
    - With rotary positions (`rotated`), outputs depend on the rotation.
    - Every parameter receives a gradient.

    Args:
        build: the function that builds the layer, see `AttentionSection.builder`.
        segments: the row to check, as the segment of each position.
        most: about how many positions to change.
        precision: `trainer.precision` of the run.
    """
    half = torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16-mixed")
    with torch.random.fork_rng(devices=[]), torch.device("cpu"), half:
        torch.manual_seed(0)
        layer, anew = (
            build(embedding_size, heads, head_size, bias=False, dropout=0.0).eval()
            for _ in range(2)
        )
        with torch.no_grad():
            # Change every parameter, because a parameter that is zero could hide a fault.
            for parameter in layer.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
        anew.load_state_dict(layer.state_dict())
        changed = range(0, len(segments), max(1, len(segments) // most))
        x_BTD = torch.randn(1, len(segments), embedding_size)
        # Keep the first row unchanged. In each of the other rows, change one position.
        x_BTD = x_BTD.repeat(1 + len(changed), 1, 1)
        for row, t in enumerate(changed, 1):
            x_BTD[row, t] = _LOUD * torch.randn(embedding_size)
        rotation = _rotation(layer, segments) if rotated else {}
        rounding = _ROUNDING[precision]
        trial = _Trial(layer, anew, x_BTD, changed, segments, rotation, rounding)
        return next(trial.faults(), None)


@dataclass(frozen=True)
class _Trial:
    """A layer and the rows on which it is checked.

    Attributes:
        layer: the layer, in evaluation mode.
        anew: a new layer that has loaded the state_dict of `layer`.
        x_BTD: the inputs. Row 1 + i differs from row 0 only at position `changed[i]`.
        changed: the changed positions.
        segments: the segment of each position.
        rotation: the keyword argument `rotation`; {} without rotary positions.
        rounding: the tolerance for rounding errors, as a share of the largest output.
    """

    layer: nn.Module
    anew: nn.Module
    x_BTD: Tensor
    changed: Sequence[int]
    segments: Sequence[int]
    rotation: dict[str, Rotation]
    rounding: float

    def faults(self) -> Iterator[str]:
        """Yield a description of each broken rule (see `behaviour_fault`)."""
        for causal in (True, False):
            yield from self._faults_of_outputs(causal)
        yield from self._missing_gradients()

    def _mask_B1TT(self, causal: bool) -> Tensor:
        segments_BT = torch.tensor([self.segments]).expand(len(self.x_BTD), -1)
        return attention_mask(segments_BT, causal=causal)

    @torch.no_grad()
    def _faults_of_outputs(self, causal: bool) -> Iterator[str]:
        mask_B1TT, x_BTD = self._mask_B1TT(causal), self.x_BTD
        y_BTD = self.layer(x_BTD, mask_B1TT, **self.rotation)
        if y_BTD.shape != x_BTD.shape:
            given, found = tuple(x_BTD.shape), tuple(y_BTD.shape)
            yield f"outputs of the shape {given}, like the inputs, but the layer returned {found}"
        if not y_BTD.isfinite().all():
            yield f"finite outputs, but some are NaN or infinite {self._tried}"

        alone = partial(self.layer, x_BTD[:1], mask_B1TT[:1], **self.rotation)
        if len(self.segments) <= len(_LONG):
            # Measure the heads once, because an error of this measurement would otherwise appear
            # only after training. Skip longer rows, which may take minutes.
            head_measures(alone)

        largest = self.rounding * float(y_BTD[0].abs().max())
        yield from self._leaks(y_BTD, mask_B1TT, causal, largest)

        def equal(one: Tensor, rtol: float = 1e-4, atol: float = largest) -> bool:
            return torch.allclose(one, y_BTD[: len(one)], rtol=rtol, atol=atol)

        if not equal(alone(), rtol=1e-3, atol=10 * largest):
            yield "outputs that do not depend on other rows of the batch, but they do"
        trained_BTD = self.layer.train()(x_BTD, mask_B1TT, **self.rotation)
        self.layer.eval()
        if not equal(trained_BTD):
            yield "equal outputs in training (without dropout) and in evaluation, but they differ"
        if not equal(self.anew(x_BTD, mask_B1TT, **self.rotation)):
            yield (
                "a state_dict that holds the whole layer, but a new layer that loads it has other "
                "outputs"
            )
        if self.rotation and equal(self.layer(x_BTD, mask_B1TT)):
            yield "outputs that depend on the rotation, but they are the same without it"

    def _leaks(
        self, y_BTD: Tensor, mask_B1TT: Tensor, causal: bool, largest: float
    ) -> Iterator[str]:
        """Yield a fault for each output that depends on a position that the mask hides from it.

        An output depends on a changed position if it has changed by more than `largest`.
        """
        # Shapes: C changed positions, T queries.
        moved_CT = (y_BTD[1:] - y_BTD[:1]).abs().amax(-1)
        hidden_CT = (moved_CT > largest) & ~mask_B1TT[0, 0].T[list(self.changed)]
        pairs = (
            (self.changed[row], query) for row, query in hidden_CT.nonzero().tolist()
        )
        kind = "a causal mask" if causal else "a mask of segments"
        # First report outputs that depend on a later position, and then those that depend on an
        # earlier position of another segment.
        for position, query in sorted(pairs, key=lambda pair: pair[0] <= pair[1]):
            yield (
                f"outputs that depend only on positions that the mask allows, but with {kind}, "
                f"position {position} changes the output at position {query} {self._tried}"
            )

    def _missing_gradients(self) -> Iterator[str]:
        y_BTD = self.layer(self.x_BTD, self._mask_B1TT(causal=True), **self.rotation)
        y_BTD.mul(torch.randn_like(self.x_BTD)).sum().backward()
        for name, parameter in self.layer.named_parameters():
            gradient = parameter.grad
            if parameter.requires_grad and (gradient is None or not gradient.any()):
                yield f"a gradient for every parameter, but {name} receives none"

    @property
    def _tried(self) -> str:
        lengths = ", ".join(
            f"{positions} of {f'segment {segment}' if segment else 'padding'}"
            for segment, positions in Counter(self.segments).items()
        )
        return f"(positions in the row: {lengths})"
