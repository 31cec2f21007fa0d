"""The contract of attention variants, checked when a run is planned.

A variant of an installed package is code that nobody here has read. One that ignores the mask sees
the tokens that it has to predict, and would win every comparison.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from models.attention_map import head_measures
from models.head_sizes import sizes_by_layer
from models.mask import attention_mask
from models.rotation import Rotation
from sweeper.store.errors import invalid_value
from sweeper.store.files import canonical
from tasks.config.architecture import KEY, WithAttention
from tasks.training.causes import message_of

_SEGMENTS = (1, 1, 1, 1, 2, 2, 2, 2, 0, 0)  # of a packed row; 0 is padding
# A variant that computes in blocks may take another path where a row has whole blocks.
_LONG = (*[1] * 40, *[2] * 16, *[0] * 8)
_CHANGED = 20  # positions of a row, each in a row of its own
_CHANGED_OF_OWN = 3  # of a row as long as the run's, which may be long
_LONGEST = 2048  # positions; of longer rows, this many are tried
# Standard deviations of a changed position: even a small weight on it shows.
_LOUD = 10.0
_ROUNDING = {
    "bf16-mixed": 1e-2,
    "32-true": 1e-5,
    "64-true": 1e-5,
}  # of the largest output
_WORK = (
    1 << 20
)  # numbers of rows: above it, only shapes of a new class are tried (some ten seconds)
_checked: set[object] = set()


def check(section: WithAttention, length: int = 0, precision: str = "32-true") -> None:
    """Check the variant of a config at the sizes of all its layers, each combination once.

    Args:
        length: the positions of a row of the run; 0 if its task has no such number.
        precision: `trainer.precision` of the run.

    Raises:
        UserError: the variant has no layer of these sizes, or breaks the contract.
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
    """Return the properties of sizes on which the behaviour of a variant may depend."""
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
    """Check a layer of these sizes on rows, each given as its segments and positions to change."""
    name, build = section.attention.name, section.attention.builder()
    try:
        with torch.device("meta"):
            layer = build(*sizes, bias=False, dropout=0.0)
    except ValueError as error:  # a variant refuses values of its options so
        keys = ("embedding_size", "heads", "head_size")
        options = section.attention.model_dump(exclude={"name"})
        given = {**dict(zip(keys, sizes, strict=True)), **options}
        words = ", ".join(f"{key}={value}" for key, value in given.items())
        why = " ".join(str(error).split())
        expected = f"a variant that has a layer of {words} ({why})"
        remedy = "choose other sizes or options"
        raise invalid_value(KEY, name, expected, remedy) from None
    except Exception as error:  # anybody's code runs here
        raise _raised(name, error) from error

    options = {"rotated": rotated, "precision": precision}
    try:
        fault = shape_fault(layer, section.embedding_size, rotated)
        for row, most in rows:
            fault = fault or behaviour_fault(
                build, *sizes, segments=row, most=most, **options
            )
    except Exception as error:
        raise _raised(name, error) from error
    if fault:
        raise invalid_value(KEY, name, fault, "mend its code")


def _own_rows(length: int) -> list[tuple[int, ...]]:
    """Return packed rows as long as the run's, and one shorter: one is even, the other odd.

    Each has two segments where both have two positions or more: a rotation changes nothing at the
    first position of a segment.
    """
    rows = []
    for own in (min(length, _LONGEST), min(length, _LONGEST) - 1):
        first = own // 2 if own >= 4 else own
        rows.append((*[1] * first, *[2] * (own - first)))
    return [row for row in rows if len(row) > 1]


def _layer_sizes(section: WithAttention) -> list[tuple[int, int, int]]:
    """Return the distinct (embedding_size, heads, head_size) that the layers are built with."""
    groups: set[tuple[int, int]] = set()  # heads of one size in a layer, and their size
    for sizes in sizes_by_layer(
        section.resolved_head_size, getattr(section, "layers", 1)
    ):
        every = [sizes] * section.heads if isinstance(sizes, int) else sizes
        groups |= {(heads, size) for size, heads in Counter(every).items()}
    return [(section.embedding_size, heads, size) for heads, size in sorted(groups)]


def _raised(name: str, error: Exception) -> Exception:
    expected = (
        "a module that is built and called on the meta device as CONTRIBUTING.md says"
    )
    expected += f", but it raised {message_of(error)}"
    return invalid_value(KEY, name, expected, "mend its code")


def _rotation(layer: Any, segments: Sequence[int] = _SEGMENTS) -> dict[str, Rotation]:
    """Return the keyword that a decoder with rotary positions calls a layer with."""
    positions_BT = torch.tensor(
        [[segments[:t].count(s) for t, s in enumerate(segments)]]
    )
    size = layer.rotary_size  # of an odd head a part is rotated (model.rotary_size)
    return {"rotation": Rotation(positions_BT, {size: size - size % 2}, base=10.0)}


def shape_fault(layer: nn.Module, embedding_size: int, rotated: bool) -> str | None:
    """Return what is wrong with the shape of a layer's outputs, or None; the layer is on "meta".

    Rank and entropy of heads are measured too, as they are after training.
    """
    layer.eval()
    with torch.device("meta"):
        x_BTD, returned = torch.zeros(1, len(_SEGMENTS), embedding_size), []
        mask_B1TT = torch.ones(
            1, 1, len(_SEGMENTS), len(_SEGMENTS), dtype=torch.bool
        ).tril()
        rotation = _rotation(layer) if rotated else {}
        head_measures(lambda: returned.append(layer(x_BTD, mask_B1TT, **rotation)))
    return _misshapen(returned[0], x_BTD)


def _misshapen(y_BTD: Tensor, x_BTD: Tensor) -> str | None:
    found, given = tuple(y_BTD.shape), tuple(x_BTD.shape)
    return (
        None
        if found == given
        else f"to return x_BTD, {given} as given, but it returned {found}"
    )


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
    """Return the first way in which a layer breaks the contract, in words; None if it keeps it.

    An output depends on no position that the mask hides from its query, and on no other row. Every
    parameter receives a gradient. Without dropout, training computes what evaluation does. With
    rotary positions (`rotated`), the output depends on them. A layer computes the same once it is
    built anew and has loaded its state.

    Args:
        segments: of the row that is tried.
        most: about this many of its positions are changed.
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
            # Change every parameter. One that is initialised to zero would hide a fault.
            for parameter in layer.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
        anew.load_state_dict(layer.state_dict())
        changed = range(0, len(segments), max(1, len(segments) // most))
        x_BTD = torch.randn(1, len(segments), embedding_size)
        x_BTD = x_BTD.repeat(
            1 + len(changed), 1, 1
        )  # each row but the first has another position
        for row, t in enumerate(changed, 1):
            x_BTD[row, t] = _LOUD * torch.randn(embedding_size)
        rotation = _rotation(layer, segments) if rotated else {}
        return next(
            _behaviour_faults(
                layer, anew, x_BTD, changed, segments, rotation, _ROUNDING[precision]
            ),
            None,
        )


def _behaviour_faults(
    layer: nn.Module,
    anew: nn.Module,
    x_BTD: Tensor,
    changed: Sequence[int],
    segments: Sequence[int],
    rotation: dict[str, Rotation],
    relative: float,
) -> Iterator[str]:
    segments_BT = torch.tensor([segments]).expand(len(x_BTD), -1)
    tried = ", ".join(
        f"{n} positions of segment {s}" for s, n in Counter(segments).items()
    )
    for causal in (True, False):
        mask_B1TT = attention_mask(segments_BT, causal=causal)
        with torch.no_grad():
            y_BTD = layer(x_BTD, mask_B1TT, **rotation)
            if fault := _misshapen(y_BTD, x_BTD):
                yield fault
                return
            if not y_BTD.isfinite().all():
                yield f"finite outputs, but some are NaN or infinite in a row of {tried}"
                return
            alone_BTD = layer(x_BTD[:1], mask_B1TT[:1], **rotation)
            trained_BTD = layer.train()(x_BTD, mask_B1TT, **rotation)
            layer.eval()
            unturned_BTD = layer(x_BTD, mask_B1TT)
            loaded_BTD = anew(x_BTD, mask_B1TT, **rotation)
        rounding = relative * float(y_BTD[0].abs().max())
        moved_CT = (y_BTD[1:] - y_BTD[:1]).abs().amax(-1)  # (changed position, query)
        hidden_CT = (moved_CT > rounding) & ~mask_B1TT[0, 0].T[list(changed)]
        pairs = ((changed[row], query) for row, query in hidden_CT.nonzero().tolist())
        # A position of the future says more than one of another segment.
        for position, query in sorted(pairs, key=lambda at: at[0] <= at[1]):
            kind = "causal " if causal else ""
            yield (
                f"outputs that depend only on positions which the mask allows, but position "
                f"{position} changes the output at position {query} under a {kind}mask of "
                f"{tried} (0 is padding)"
            )
        if not torch.allclose(alone_BTD, y_BTD[:1], rtol=1e-3, atol=10 * rounding):
            yield "the outputs of a row not to depend on the other rows of its batch, but they do"
        if not torch.allclose(trained_BTD, y_BTD, rtol=1e-4, atol=rounding):
            yield "equal outputs in training and in evaluation without dropout, but they differ"
        if not torch.allclose(loaded_BTD, y_BTD, rtol=1e-4, atol=rounding):
            yield (
                "equal outputs of a layer that was built anew and has loaded its state_dict, but "
                "they differ, so a checkpoint would not hold all of it"
            )
        if rotation and torch.allclose(unturned_BTD, y_BTD, rtol=1e-4, atol=rounding):
            yield "outputs that depend on the rotation, but they are the same without it"
    mask_B1TT = attention_mask(segments_BT, causal=True)
    layer(x_BTD, mask_B1TT, **rotation).mul(torch.randn_like(x_BTD)).sum().backward()
    for name, parameter in layer.named_parameters():
        if parameter.requires_grad and (
            parameter.grad is None or not parameter.grad.any()
        ):
            yield f"a gradient for every parameter that is counted, but {name} receives none"
