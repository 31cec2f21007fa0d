"""The grid of an arm: how large it is, what its axes move together, a point of it in words."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sweeper.plan.experiment import Arm
from sweeper.store.errors import UserError, invalid_value


def count(arm: Arm) -> int:
    """How many combinations there are of an arm's values, without making them."""
    return math.prod(len(values) for values in arm.grid.values())


def apart(arm: Arm, values: Mapping[str, Any]) -> dict[str, Any]:
    """A combination with a value for each key, where an axis of the arm moves several together.

    Such an axis is `model.heads,model.layers: [[8, 2], [9, 3]]`.
    """
    found = {}
    for axis, given in values.items():
        keys = [key.strip() for key in axis.split(",")]
        if len(keys) == 1:
            found[axis] = given
        elif isinstance(given, list) and len(given) == len(keys):
            found |= zip(keys, given, strict=True)
        else:
            expected = f"a list of {len(keys)} values, one for each of its keys"
            raise invalid_value(
                f"{arm.name}.grid.{axis}", given, expected, "correct the experiment's yaml"
            )
    return found


def check_size(points: int, limit: int, what: str) -> None:
    """Refuse a grid that is too large before it is expanded.

    Raises:
        UserError: more than `limit` points.
    """
    if points > limit:
        raise UserError(
            f"{what} has {points:,} points, more than hydra.sweeper.max_runs={limit:,}; "
            "sweep fewer values or raise hydra.sweeper.max_runs."
        )


def shown(values: Mapping[str, Any]) -> str:
    """A point in words: `heads=8 head_size=32`, keys without their section."""
    words = {key: "null" if value is None else value for key, value in values.items()}
    return " ".join(f"{key.rpartition('.')[2]}={word}" for key, word in words.items())


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.Not: operator.not_,
    ast.USub: operator.neg,
}
_TOGETHER: dict[type[ast.boolop], Callable[[Iterable[Any]], bool]] = {ast.And: all, ast.Or: any}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip


def holds(expression: str | None, config: Mapping[str, Any]) -> bool:
    """Whether `expression` is true of a run's config; no expression is true of all.

    Numbers, strings, lists, + - * / // %, comparisons, `in`, and/or/not, and config keys as
    names. Nothing is ever executed: the text is parsed and walked here.

    Raises:
        UserError: the expression does not parse, or names a key the config has not.
    """
    if expression is None:
        return True
    try:
        return bool(_value(ast.parse(expression, mode="eval").body, config))
    except (SyntaxError, TypeError, ZeroDivisionError, KeyError, ValueError) as problem:
        raise UserError(
            f"where={expression!r}: expected a condition over config keys such as "
            f"'model.embedding_size % model.heads == 0' ({problem}); correct it in the experiment."
        ) from None


def _value(node: ast.expr, config: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=int() | float() | str() | bool() | None):
            return node.value
        case ast.Name() | ast.Attribute():
            return lookup(ast.unparse(node), config)
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return [_value(element, config) for element in elements]
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            return _UNARY[type(op)](_value(operand, config))
        case ast.BoolOp(op=op, values=values):
            return _TOGETHER[type(op)](_value(value, config) for value in values)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_value(left, config), _value(right, config))
        case ast.Compare():
            return _compare(node, config)
    raise ValueError(f"{ast.unparse(node)!r} is not allowed")


def _compare(node: ast.Compare, config: Mapping[str, Any]) -> bool:
    left = _value(node.left, config)
    for op, comparator in zip(node.ops, node.comparators, strict=True):
        if type(op) not in _COMPARE:
            raise ValueError(f"{ast.unparse(node)!r} is not allowed")
        right = _value(comparator, config)
        if not _COMPARE[type(op)](left, right):
            return False
        left = right
    return True


def lookup(key: str, config: Mapping[str, Any]) -> Any:
    """The value under a dotted key; KeyError if there is none."""
    value: Any = config
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            raise KeyError(f"no key {key}")
        value = value[part]
    return value
