"""Combine the values of an arm's grid, and evaluate conditions such as `where`."""

import ast
import itertools
import operator
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from sweeper.plan.experiment import Arm
from sweeper.store.errors import UserError, invalid_value, sanitize
from sweeper.store.identity import lookup


def combinations(arm: Arm) -> list[dict[str, Any]]:
    """Return the distinct points of an arm's grid, each as a dict from config keys to values.

    The last axis varies fastest. An axis may set several keys together, as in
    `model.heads,model.layers: [[8, 2], [9, 3]]`. If two axes set the same key, the later axis wins.
    Raise UserError if an axis of several keys does not give one value for each of these keys.
    """
    every: dict[str, dict[str, Any]] = {}
    for values in itertools.product(*arm.grid.values()):
        found: dict[str, Any] = {}
        for axis, given in zip(arm.grid, values, strict=True):
            keys = [key.strip() for key in axis.split(",")]
            if len(keys) == 1:
                given = [given]
            if not isinstance(given, list) or len(given) != len(keys):
                where = f"experiment.arms.{arm.name}.grid.{axis}"
                expected = f"a list of {len(keys)} values"
                remedy = "give each of these keys a value"
                raise invalid_value(where, given, expected, remedy)
            found |= zip(keys, given, strict=True)
        every.setdefault(repr(found), found)
    return [*every.values()]


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.Not: operator.not_,
    ast.USub: operator.neg,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip


_LONGEST = 500  # the longest condition, in characters


def holds(expression: str | None, config: Mapping[str, Any]) -> bool:
    """Return whether a condition such as `model.embedding_size % model.heads == 0` holds.

    A condition may use keys of `config`, numbers, strings, lists, + - * / // %, comparisons, `in`,
    `and`, `or` and `not`. Raise UserError for anything else. The condition is parsed with `ast` and
    evaluated here, never executed as Python code. Return True if `expression` is None.
    """
    if expression is None:
        return True
    try:
        if len(expression) > _LONGEST:
            raise ValueError(f"it is longer than {_LONGEST} characters")
        return bool(_value(ast.parse(expression, mode="eval").body, config))
    except (
        SyntaxError,
        TypeError,
        ArithmeticError,
        KeyError,
        ValueError,
        RecursionError,
    ) as problem:
        raise UserError(
            f"where={sanitize(repr(expression), 100)}: {problem.args[0]}. Correct the yaml; a "
            "condition compares config keys, as in 'model.embedding_size % model.heads == 0'."
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
            together = all if isinstance(op, ast.And) else any
            return together(_value(value, config) for value in values)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            operands = [_value(left, config), _value(right, config)]
            if not all(isinstance(one, int | float) for one in operands):
                # A string times 10**9 would fill the memory.
                raise TypeError("arithmetic takes numbers only")
            return _BINARY[type(op)](*operands)
        case ast.Compare(ops=ops) if all(type(op) in _COMPARE for op in ops):
            sides = [_value(side, config) for side in (node.left, *node.comparators)]
            pairs = zip(ops, pairwise(sides), strict=True)
            return all(_COMPARE[type(op)](left, right) for op, (left, right) in pairs)
    raise ValueError(f"{ast.unparse(node)!r} is not allowed")
