"""Arithmetic on amounts, as a desk's calculator does it."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_EVEN, Context, Decimal, DecimalException
from typing import Any

_ALLOWED = frozenset("0123456789+-*/(). ")
_CONTEXT = Context(prec=50, rounding=ROUND_HALF_EVEN)
_CENT = Decimal("0.01")

_BINARY: Mapping[type[ast.operator], Callable[[Decimal, Decimal], Decimal]] = {
    ast.Add: _CONTEXT.add,
    ast.Sub: _CONTEXT.subtract,
    ast.Mult: _CONTEXT.multiply,
    ast.Div: _CONTEXT.divide,
}
_UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}


def calculated(expression: str) -> str:
    """Return the value of an expression, rounded to two places.

    Args:
        expression: Numbers, ``+ - * /``, parentheses and blanks; a few hundred
            characters at most.

    Raises:
        ValueError: If it is anything else, or has no value.
    """
    if not set(expression) <= _ALLOWED:
        raise ValueError("Only numbers, + - * /, parentheses and blanks are known.")
    try:
        tree = ast.parse(expression.strip(), mode="eval")
        value = _value(tree.body, expression)
        return str(value.quantize(_CENT, context=_CONTEXT))
    except (SyntaxError, RecursionError, MemoryError):
        raise ValueError("The expression cannot be read.") from None
    except DecimalException:
        raise ValueError("The expression has no value.") from None


def _value(node: ast.expr, source: str) -> Decimal:
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        left, right = _value(node.left, source), _value(node.right, source)
        return _BINARY[type(node.op)](left, right)
    if isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
        value: Decimal = _UNARY[type(node.op)](_value(node.operand, source))
        return value
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        # The text, and not the float that was made of it: 0.1 is one tenth.
        return Decimal(ast.get_source_segment(source.strip(), node) or "NaN")
    raise ValueError("Only numbers, + - * /, parentheses and blanks are known.")
