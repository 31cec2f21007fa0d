"""The attention variant that a config names, and its own options, read off its constructor."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import create_model
from torch import nn

from sweeper.store import registry
from sweeper.store.errors import invalid_value
from tasks.config.schema import Section, given

KEY = "model.attention.name"
# What every variant takes besides three sizes; the rest are a variant's own options.
COMMON = ("bias", "dropout")


class AttentionSection(Section):
    """The attention variant; the variant's own options are added to the schema when it is named."""

    name: str

    def builder(self) -> Callable[..., nn.Module]:
        """Return `builder(embedding_size, heads, head_size, *, bias, dropout)` of one layer."""
        options = {key: getattr(self, key) for key in type(self).model_fields if key != "name"}
        return functools.partial(variant(self.name), **options)


def variant(name: Any) -> type[nn.Module]:
    """Return the attention class of a name.

    It is built as `cls(embedding_size, heads, head_size, *, bias=False, dropout=0.0, **options)`
    and called as `attention(x_BTD, mask_B1TT) -> x_BTD`;
    `tasks.size_server.attention_contract` checks it. A name that is none, or a module without
    exactly one public nn.Module, is a UserError.
    """
    return registry.class_of(registry.ATTENTION, name, KEY, nn.Module)


def section_of(name: Any) -> type[AttentionSection]:
    """Return the section of a variant: its name and its own options, as its constructor has them.

    Raises:
        UserError: no such variant, or its constructor is not one that a block can call.
    """
    cls: Any = variant(name)
    return _composed(cls, name)


@functools.cache  # composing takes longer than everything else that is done to check a config
def _composed(cls: type[nn.Module], name: str) -> type[AttentionSection]:
    hints = typing.get_type_hints(cls.__init__)
    options: dict[str, Any] = {}
    for key, parameter in _own_options(cls, name).items():
        required = parameter.default is parameter.empty
        if key not in hints:
            remedy = "write what it may be, as in `value_size: int | None = None`"
            raise invalid_value(KEY, name, f"a type for its option {key}", remedy)
        is_size = hints[key] in (int, int | None)  # whatever a variant counts is at least 1
        kind = "a whole number of at least 1" if is_size else "a value"
        null = ", or null," if hints[key] == int | None else ""
        field = given(
            f"{kind}{null} for {key} of the {name} attention",
            (8 if is_size else "VALUE") if required else parameter.default,
            **({"ge": 1} if is_size else {}),
        )
        options[key] = (Annotated[hints[key], field], ... if required else parameter.default)
    return create_model("AttentionSection", __base__=AttentionSection, **options)


def _own_options(cls: type[nn.Module], name: str) -> dict[str, inspect.Parameter]:
    """The keywords that only this variant takes; UserError if it cannot be called as it has to."""
    taken = inspect.signature(cls)
    own = {
        key: parameter
        for key, parameter in taken.parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY and key not in COMMON
    }
    try:
        taken.bind(8, 2, 4, **dict.fromkeys((*COMMON, *own)))
    except TypeError as error:
        expected = (
            f"{cls.__name__}(embedding_size, heads, head_size, *, bias=False, dropout=0.0, "
            f"<own options>), but it is {cls.__name__}{taken}: {error}"
        )
        raise invalid_value(KEY, name, expected, "change its constructor") from None
    return own
