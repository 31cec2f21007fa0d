"""The base class of config sections, and the conversion of pydantic's errors to messages."""

import difflib
import functools
import operator
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, create_model

from sweeper.store.errors import SYNONYMS, spelled


class Problem(NamedTuple):
    """An invalid value of a config, with its key, the expected values and a remedy."""

    key: str
    value: Any
    expected: str
    remedy: str


class Section(BaseModel):
    """The base class of config sections. Unknown keys are errors.

    Values are not converted. For example, the string "4" is not a valid number.
    """

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False
    )

    def problems(self, path: str = "") -> Iterator[Problem]:
        """Yield a problem for each value that contradicts the value of another key.

        pydantic has already validated each value by itself.

        Args:
            path: the dotted key of this section, such as "model". It is "" for the whole config.
        """
        for key in type(self).model_fields:
            if isinstance(section := getattr(self, key), Section):
                yield from section.problems(f"{path}.{key}" if path else key)


# Cached, because creating a pydantic class takes longer than all other checks of a config.
@functools.cache
def extended(section: type[Section], **fields: Any) -> Any:
    """Return a subclass of `section` with the given required keys.

    Each keyword argument is the name of a key with its type. It replaces an inherited key of the
    same name.
    """
    named: dict[str, Any] = {name: (kind, ...) for name, kind in fields.items()}
    return create_model(section.__name__, __base__=section, **named)


def whole(least: int, most: int, example: int, *, null: bool = False) -> Any:
    """Return a pydantic field for a whole number from `least` to `most`.

    Args:
        example: a valid number that error messages suggest.
        null: whether error messages say that null is valid, too. To accept null, the key's type
            must allow None.
    """
    expected = f"a whole number from {least} to {most}{', or null' if null else ''}"
    return Field(ge=least, le=most, description=expected, examples=[example])


def given(expected: str, example: Any, **limits: Any) -> Any:
    """Return a pydantic field with a description and an example for error messages.

    Args:
        expected: the description of valid values in error messages.
        example: a valid value that error messages suggest.
        limits: constraints that `pydantic.Field` takes, such as `gt=0`.
    """
    return Field(description=expected, examples=[example], **limits)


Flag = Annotated[bool, given("true or false", True)]
"""The type of a key that is true or false."""


ONE_VALUE = ("int_type", "float_type", "bool_type", "string_type", "literal_error")
"""The error types with which pydantic rejects a list for a key that takes a single value."""


def problem(
    schema: type[Section], error: Mapping[str, Any], config: Mapping[str, Any]
) -> Problem:
    """Convert an entry of pydantic's `ValidationError.errors()` on `config` to a Problem."""
    # `loc` begins with the names of sections and a key. The rest of `loc`, such as the index of a
    # list, refers to a part of the key's value, and is ignored.
    section, keys, field = schema, [], None
    for key in map(str, error["loc"]):
        keys.append(key)
        field = section.model_fields.get(key)
        annotation = None if field is None else field.annotation
        if not (isinstance(annotation, type) and issubclass(annotation, Section)):
            break
        section = annotation

    path = ".".join(keys)
    if error["type"] == "extra_forbidden":
        *parents, key = keys
        near = difflib.get_close_matches(
            SYNONYMS.get(key, key), section.model_fields, n=1
        )
        expected = f"one of the keys {', '.join(section.model_fields)}"
        remedy = f"write {'.'.join([*parents, near[0]])}" if near else "remove it"
        return Problem(path, spelled(error["input"]), expected, remedy)

    assert field is not None, f"{path} is in the schema"
    typed: Any = "(missing)"
    if error["type"] != "missing":
        # Show the whole value of the key, even if only an element of it is wrong.
        typed = functools.reduce(operator.getitem, keys, config)
    choices = (
        get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
    )
    names = ", ".join(choices or section.model_fields)
    expected = field.description or (
        f"one of {names}" if choices else f"a group of keys ({names})"
    )

    examples = field.examples or choices
    if error["type"] == "int_type" and isinstance(typed, float) and typed.is_integer():
        examples = [int(typed)]
    if (meant := SYNONYMS.get(str(typed).lower())) in choices:
        examples = [meant]
    remedy = f"choose a file of conf/{path}"
    one_value = error["type"] in ONE_VALUE
    if one_value and isinstance(typed, list) and len(typed) > 1:
        several = ",".join(map(spelled, typed))
        remedy = f"to sweep these values, use -m {path}={several}"
    elif examples:
        remedy = f"set {path}={spelled(examples[0])}"
    return Problem(path, spelled(typed), expected, remedy)
