"""Whether an expression is too large to be computed: a tower of powers keeps math-verify busy until it is killed."""

from __future__ import annotations

import math
import re

_MOST_DIGITS = 20_000
"""Digits of a power."""
_LARGEST_FACTORIAL = 5_000
_LARGEST_CHOICE = 100_000
_MOST_POWERS = 200
_TOKEN = re.compile(r"[0-9]+(?:\.[0-9]+)?|\\[A-Za-z]+|\S")
_OPENING, _CLOSING = "{([", "})]"
_BASES = {"e": math.e, "\\pi": math.pi, "\\mathrm": math.e}


def is_too_large(text: str) -> bool:
    """Whether a power, a factorial or a binomial coefficient in a text has too many digits, however it is nested."""
    if "^" not in text and "!" not in text and "**" not in text and "binom" not in text:
        return False
    tokens = _TOKEN.findall(text.replace("**", "^"))
    if tokens.count("^") > _MOST_POWERS or tokens.count("!") > _MOST_POWERS:
        return True
    try:
        return _estimate(tokens) > _MOST_DIGITS
    except (OverflowError, RecursionError):
        return True


def _estimate(tokens: list[str]) -> float:
    """Return an upper bound of the decimal digits of what a list of tokens computes; infinite if a part has too many."""
    total, position = 0.0, 0
    while position < len(tokens):
        token = tokens[position]
        if token == "\\binom":
            chosen, position = _read_group(tokens, position + 1)
            total += _check(10 ** min(_estimate(chosen), 300), _LARGEST_CHOICE)
            continue
        term, position = _read_group(tokens, position)
        digits = _estimate(term) if len(term) > 1 or token in _OPENING else _count_digits(term[0]) if term else 0.0
        while position < len(tokens) and tokens[position] in ("!", "^"):
            if tokens[position] == "!":
                value = _check(10 ** min(digits, 300), _LARGEST_FACTORIAL)
                digits, position = value * max(digits, 1), position + 1
                continue
            raised, position = _read_group(tokens, position + 1)
            if position < len(tokens) and tokens[position] == "^":
                # `9^9^9`, which LaTeX does not allow, is read from the right.
                raised, position = [*raised, *tokens[position:]], len(tokens)
            power = 10 ** min(_estimate(raised), 300)
            digits = 0.0 if digits == 0 and power < _MOST_DIGITS else max(digits, 0.3) * power
            if digits > _MOST_DIGITS:
                return math.inf
        total += digits
    return total


def _read_group(tokens: list[str], position: int) -> tuple[list[str], int]:
    """Return the tokens of an argument, without what encloses them, and where it ends."""
    if position >= len(tokens):
        return [], position
    if tokens[position] in "+-" and position + 1 < len(tokens):
        return tokens[position + 1 : position + 2], position + 2
    if tokens[position] not in _OPENING:
        return tokens[position : position + 1], position + 1
    depth = 0
    for end in range(position, len(tokens)):
        depth += (tokens[end] in _OPENING) - (tokens[end] in _CLOSING)
        if depth == 0:
            return tokens[position + 1 : end], end + 1
    return tokens[position + 1 :], len(tokens)


def _count_digits(token: str) -> float:
    if token[0].isdigit():
        return math.log10(max(float(token), 1.0)) if len(token) < 300 else float(len(token))
    return math.log10(_BASES[token]) if token in _BASES else 0.0


def _check(value: float, largest: int) -> float:
    return value if value <= largest else math.inf
