"""Arithmetic over a job's parameters, as a job file writes it: + - * / and parentheses; it runs nothing of a job."""

import ast
import operator
from collections.abc import Callable, Mapping
from math import isfinite

LONGEST = 1000
"""Characters of a formula: a longer one was not written by a person."""
ALLOWED = "numbers, names of parameters that are numbers, + - * / and parentheses"
_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def evaluate(text: str, values: Mapping[str, object]) -> float:
    """Return the value of a formula with these values of the parameters. Raises ValueError, with what is wrong."""
    if len(text) > LONGEST:
        raise ValueError(f"a formula has at most {LONGEST} characters")
    try:
        found = _value(ast.parse(text, mode="eval").body, values)
    except (SyntaxError, MemoryError, RecursionError):
        raise ValueError(f"{text!r} is not a formula; allowed: {ALLOWED}") from None
    except (ArithmeticError, OverflowError):
        found = float("nan")
    if not isfinite(found) or found < 0:
        raise ValueError(f"{text!r} has no value that is zero or above")
    return found


def _value(node: ast.expr, values: Mapping[str, object]) -> float:
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left, values), _value(node.right, values))
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value  # type: ignore[return-value]
    if isinstance(node, ast.Name):
        value = values.get(node.id)
        if type(value) in (int, float):
            return value  # type: ignore[return-value]
        raise ValueError(f"no parameter {node.id!r} of the job is a number")
    raise ValueError(f"{ast.unparse(node)!r} is not allowed in a formula; allowed: {ALLOWED}")
