"""Parses messages that an agent framework wrote as Python's `repr`, without running anything."""

from __future__ import annotations

import ast
from typing import Any

LONGEST = 4 << 20
"""Longer texts are not parsed: that would take too much memory."""


def parse_repr(text: str) -> Any:
    """Return a `repr` as plain data: a call such as `Msg(name='user')` becomes the object of its keywords.

    Raises `ValueError` for any other text.
    """
    if len(text) > LONGEST:
        raise ValueError(f"a repr of {len(text):,} characters")
    for attempt in (text, _replace_objects(text)):
        try:
            return _value(ast.parse(attempt.strip(), mode="eval").body)
        except (SyntaxError, RecursionError, MemoryError):
            continue
    raise ValueError("no Python expression")


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=str() | int() | float() | None as value):
            return value
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_value(item) for item in items]
        case ast.Dict(keys=keys, values=values):
            return {str(_value(key)): _value(value) for key, value in zip(keys, values, strict=True) if key is not None}
        case ast.Call(keywords=keywords):
            return {word.arg: _value(word.value) for word in keywords if word.arg is not None}
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
    # Names, comprehensions, arithmetic: messages need none of these.
    return None


def _replace_objects(text: str) -> str:
    """Replace `<…>` outside strings, an object without its own `repr`, by None."""
    made: list[str] = []
    quote, depth, position = "", 0, 0
    while position < len(text):
        character = text[position]
        if quote and character == "\\":
            made.append("" if depth else text[position : position + 2])
            position += 2
            continue
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character == "<":
            made.append("None" if depth == 0 else "")
            depth += 1
        if not depth:
            made.append(character)
        elif not quote and character == ">":
            depth -= 1
        position += 1
    return "".join(made)
