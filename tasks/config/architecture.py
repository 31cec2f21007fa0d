"""The config's section `model`, which chooses an architecture and an attention variant.

The options of an attention variant are keyword arguments of its constructor.
"""

from __future__ import annotations

import functools
import inspect
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, create_model
from torch import nn

from models.head_sizes import HeadSize, distinct_sizes
from sweeper.store import registry
from sweeper.store.errors import SYNONYMS, invalid_value, spelled
from tasks.config.schema import Flag, Problem, Section, extended, given, whole

KEY = "model.attention.name"
# The keyword arguments that the constructor of every attention variant takes. Its other keyword
# arguments are the options of the variant.
COMMON = ("bias", "dropout")


class AttentionSection(Section):
    """The section `model.attention`. `section_of` adds the options of a variant as keys."""

    name: str

    def builder(self) -> Callable[..., nn.Module]:
        """Return a function that builds the attention of one layer.

        Its signature is `builder(embedding_size, heads, head_size, *, bias, dropout)`.
        """
        options = self.model_dump(exclude={"name"})
        return functools.partial(variant(self.name), **options)


def variant(name: Any) -> type[nn.Module]:
    """Return the attention class with this name. Raise UserError if the name is unknown.

    The constructor is `cls(embedding_size, heads, head_size, *, bias=False, dropout=0.0,
    **options)`. A call is `attention(x_BTD, mask_B1TT) -> x_BTD`.
    """
    return registry.class_of(registry.ATTENTION, name, KEY, nn.Module)


# Cached, because creating a pydantic class takes longer than all other checks of a config.
@functools.cache
def section_of(cls: type[nn.Module], name: str) -> type[AttentionSection]:
    """Return the pydantic class that validates `model.attention` for a variant.

    The class has the key `name`, and a key for each option of the variant.

    Args:
        cls: the variant's class.
        name: the variant's registered name.

    Raises:
        UserError: the constructor lacks an argument that every variant must take, or an option has
            no type annotation.
    """
    hints, taken = typing.get_type_hints(cls.__init__), inspect.signature(cls)
    own = {
        key: parameter
        for key, parameter in taken.parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY and key not in COMMON
    }
    try:
        taken.bind(8, 2, 4, **dict.fromkeys((*COMMON, *own)))
    except TypeError as error:
        expected = (
            f"a constructor {cls.__name__}(embedding_size, heads, head_size, *, bias=False, "
            f"dropout=0.0, <own options>), but its signature is {taken} ({error})"
        )
        raise invalid_value(KEY, name, expected, "change the constructor") from None

    options: dict[str, Any] = {}
    for key, parameter in own.items():
        if key not in hints:
            expected = f"a type annotation for its option {key}"
            remedy = "write for example `value_size: int | None = None`"
            raise invalid_value(KEY, name, expected, remedy)
        # Integer options are sizes or counts, so they are at least 1.
        is_size = hints[key] in (int, int | None)
        kind = "a whole number of at least 1" if is_size else "a value"
        null = ", or null," if hints[key] == int | None else ""
        expected = f"{kind}{null} for the option {key} of the attention {name}"
        example = 8 if is_size else "VALUE"
        default = ...  # pydantic's mark of a required key
        if parameter.default is not parameter.empty:
            example = default = parameter.default
        limits = {"ge": 1} if is_size else {}
        field = given(expected, example, **limits)
        options[key] = (Annotated[hints[key], field], default)
    return create_model("AttentionSection", __base__=AttentionSection, **options)


# The types of `head_size`: one size, one for each head of a layer, or one entry for each layer.
_Size = Annotated[int, Field(ge=1, le=65_536)]
_SizesOfLayer = Annotated[list[_Size], Field(min_length=1)]
_SizesByLayer = Annotated[list[_SizesOfLayer | _Size], Field(min_length=1)]


class Architecture(Section, ABC):
    """The base class of the section `model`, with the keys that all architectures share."""

    counted_on: ClassVar[str] = "meta"
    """The device on which FLOPs are counted: "meta", or "cpu" if a model reads tensors' values."""
    name: str
    embedding_size: Annotated[int, whole(1, 65_536, 256)]
    heads: Annotated[int, whole(1, 65_536, 8)]
    head_size: Annotated[
        _SizesByLayer | _Size | None,
        given(
            "null (embedding_size / heads), a whole number from 1 to 65536, or a list with one "
            "entry for each layer (a number, or a list of one number for each head)",
            32,
        ),
    ]

    @classmethod
    def schema_of(cls, section: Mapping[str, Any]) -> type[Architecture]:
        """Return the pydantic class that validates the section `model` of a config.

        By default, return this class. A subclass may choose another by the values in `section`.
        """
        return cls

    @property
    def called(self) -> tuple[str, str]:
        """The config key that selects the model's code, and its value: ("model.name", "decoder").

        Messages about this code name both.
        """
        return "model.name", self.name

    @property
    def resolved_head_size(self) -> HeadSize:
        """The size of every head (d_p in the paper), or the list that the config gives."""
        return self.head_size or self.embedding_size // self.heads

    @property
    def one_head_size(self) -> int | None:
        """The size of every head, or None if not all heads have the same size."""
        first, *others = distinct_sizes(self.resolved_head_size)
        return None if others else first

    @property
    def uneven(self) -> bool:
        """True if the config gives a list of head sizes for a layer, even if all are equal."""
        sizes = self.resolved_head_size
        return isinstance(sizes, list) and any(isinstance(one, list) for one in sizes)

    def problems(self, path: str = "") -> Iterator[Problem]:
        key, sizes = f"{path}.head_size", self.head_size
        layers = getattr(self, "layers", None)
        if sizes is None and self.embedding_size % self.heads:
            size = f"{path}.embedding_size={self.embedding_size}"
            near = max(
                h for h in range(1, self.heads + 1) if self.embedding_size % h == 0
            )
            expected = f"a divisor of {size}, or a value for {path}.head_size"
            remedy = f"set {path}.heads={near}, or set {path}.head_size"
            yield Problem(f"{path}.heads", self.heads, expected, remedy)
        if not isinstance(sizes, list):
            return
        if layers is None:
            yield Problem(key, sizes, "a whole number, or null", f"set {key}=32")
        elif len(sizes) != layers:
            expected = f"one entry for each layer ({path}.layers={layers})"
            remedy = f"set {key}={spelled((sizes * layers)[:layers])}"
            yield Problem(key, sizes, expected, remedy)
        elif wrong := [
            s for s in sizes if isinstance(s, list) and len(s) != self.heads
        ]:
            expected = (
                f"one size for each head in a layer's list ({path}.heads={self.heads})"
            )
            yield Problem(key, sizes, expected, f"correct the list {spelled(wrong[0])}")

    @abstractmethod
    def build(self, *inputs: Any, **options: Any) -> nn.Module:
        """Return a new model on the default device. On the device "meta", no weights are drawn.

        Each architecture defines its own parameters of this method.
        """


class WithAttention(Architecture):
    """The base class of architectures whose config names an attention variant."""

    attention: AttentionSection

    @classmethod
    def schema_of(cls, section: Mapping[str, Any]) -> type[Architecture]:
        """Return a subclass of this class with the options of the variant that `section` names.

        Raises:
            UserError: the section names no valid attention variant.
        """
        group = section.get("attention")
        if not isinstance(group, Mapping):
            expected = "a group of keys that includes `name`"
            meant = SYNONYMS.get(str(group), group)
            example = (
                meant if meant in registry.names(registry.ATTENTION) else "multi_head"
            )
            remedy = f"choose a file of conf/model/attention, as in model/attention={example}"
            raise invalid_value("model.attention", spelled(group), expected, remedy)
        name: Any = group.get("name")
        chosen: Any = variant(name)
        return extended(cls, attention=section_of(chosen, name))

    @property
    def called(self) -> tuple[str, str]:
        return KEY, self.attention.name

    def problems(self, path: str = "") -> Iterator[Problem]:
        yield from super().problems(path)
        sizes = self.head_size if isinstance(self.head_size, list) else []
        mixed = [one for one in sizes if isinstance(one, list) and len(set(one)) > 1]
        name = self.attention.name
        if mixed and getattr(variant(name), "heads_share", False):
            expected = f"equal sizes within each layer, since heads of {KEY}={name} share weights"
            remedy = "give each layer one size, or choose model/attention=multi_head"
            yield Problem(f"{path}.head_size", sizes, expected, remedy)


Layers = Annotated[int, whole(1, 1024, 6)]
Dropout = Annotated[float, given("a number at least 0 and below 1", 0.1, ge=0, lt=1)]


class TransformerSection(WithAttention):
    """The section `model` of a Transformer."""

    layers: Layers
    feedforward_size: Annotated[int, whole(1, 2**22, 1024)]
    activation: Literal["relu", "gelu", "silu"]
    tie_embeddings: Flag
    dropout: Dropout

    def options(self) -> dict[str, Any]:
        """Return the constructor arguments that all Transformers in models/ share.

        The vocabulary size is left out, because it is an argument of `build`.
        """
        own = {
            "layers",
            "embedding_size",
            "heads",
            "feedforward_size",
            "activation",
            "dropout",
        }
        return self.model_dump(include=own) | {
            "head_size": self.resolved_head_size,
            "attention": self.attention.builder(),
        }
