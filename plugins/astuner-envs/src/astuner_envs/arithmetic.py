"""Evaluates arithmetic that a model wrote: exactly, in bounded time, and nothing else."""

from __future__ import annotations

import ast
from fractions import Fraction

from attrs import frozen

LONGEST = 400
"""Characters of an expression."""
LARGEST = 10**60
"""Of every intermediate value, numerator and denominator."""

_SAME = {"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-", "：": "/"}


class NotArithmetic(ValueError):
    """Says what is wrong, in words that the model can use."""


@frozen
class Value:
    """The value of an expression."""

    number: Fraction
    used: tuple[Fraction, ...]
    """The numbers that it contains, in order."""

    def __str__(self) -> str:
        return str(self.number)


def evaluate(text: str) -> Value:
    """Evaluate `+ - * /`, brackets and whole or decimal numbers. Powers, names, calls and everything else are refused."""
    text = "".join(_SAME.get(character, character) for character in text).strip()
    if not text:
        raise NotArithmetic("there is no expression")
    if len(text) > LONGEST:
        raise NotArithmetic(f"an expression has at most {LONGEST} characters")
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise NotArithmetic(f"{text!r} is not an arithmetic expression") from None
    used: list[Fraction] = []
    return Value(_value(tree.body, text, used), tuple(used))


def _value(node: ast.expr, text: str, used: list[Fraction]) -> Fraction:
    match node:
        case ast.Constant():
            return _number(node, text, used)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, text, used)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand, text, used)
        case ast.BinOp(left=left, op=op, right=right):
            return _check_bounds(_combine(op, _value(left, text, used), _value(right, text, used)))
    raise NotArithmetic(f"only numbers, + - * / and brackets are understood, not {ast.get_source_segment(text, node)!r}")


def _combine(op: ast.operator, left: Fraction, right: Fraction) -> Fraction:
    match op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.Div():
            if right == 0:
                raise NotArithmetic("it divides by zero")
            return left / right
    raise NotArithmetic("only + - * / are understood")


def _number(node: ast.Constant, text: str, used: list[Fraction]) -> Fraction:
    written = ast.get_source_segment(text, node) or ""
    # Python's constants include bool and complex, and its numbers 1_000.
    if not written.replace(".", "", 1).isdecimal() or not written.isascii():
        raise NotArithmetic(f"{written!r} is not a plain number")
    number = _check_bounds(Fraction(written))
    used.append(number)
    return number


def _check_bounds(number: Fraction) -> Fraction:
    if abs(number.numerator) > LARGEST or number.denominator > LARGEST:
        raise NotArithmetic("the numbers become too large")
    return number
