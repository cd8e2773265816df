from __future__ import annotations

import contextlib
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astuner_envs.arithmetic import LONGEST, NotArithmetic, evaluate

NUMBERS = st.integers(0, 99).map(lambda n: (str(n), Fraction(n), (Fraction(n),)))


def joined(parts):
    """Join two expressions with their values and numbers; a division by zero becomes a sum."""
    (left, left_value, left_used), sign, (right, right_value, right_used) = parts
    sign = "+" if sign == "/" and not right_value else sign
    value = {
        "+": lambda: left_value + right_value,
        "-": lambda: left_value - right_value,
        "*": lambda: left_value * right_value,
        "/": lambda: left_value / right_value,
    }[sign]()
    return f"({left} {sign} {right})", value, left_used + right_used


EXPRESSIONS = st.recursive(NUMBERS, lambda below: st.tuples(below, st.sampled_from("+-*/"), below).map(joined), max_leaves=8)


@given(EXPRESSIONS)
def test_arithmetic_is_exact_and_tells_which_numbers_it_used(expression):
    text, value, used = expression
    found = evaluate(text)
    assert (found.number, found.used) == (value, used)


@pytest.mark.parametrize("text", ["3 × 4 − 2", "-(-10)", " 5+5 ", "20÷2", "2.5*4"])
def test_what_people_write_is_understood(text):
    assert evaluate(text).number == 10


@pytest.mark.parametrize(
    "text",
    [
        "9**9**9**9",
        "10 // 3",
        "10 % 3",
        "1 << 9",
        "__import__('os').getcwd()",
        "().__class__",
        "x",
        "'a' * 9",
        "[1][0]",
        "True + 1",
        "1_000",
        "1e9",
        "0x10",
        "1j",
        "1 if 1 else 2",
        "(lambda: 1)()",
        "f'{1}'",
        "1, 2",
        "１ + 1",
        "",
        "1 +",
        "((((",
        "1\n2",
        "1 == 1",
    ],
)
def test_everything_else_is_refused(text):
    with pytest.raises(NotArithmetic):
        evaluate(text)


@pytest.mark.parametrize(
    "text", ["1" * (LONGEST + 1), "(" * 150 + "1" + ")" * 150, "-" * 399 + "1", "*".join(["999999999999"] * 30)]
)
def test_what_is_long_ends_at_once_whatever_it_is(text):
    with contextlib.suppress(NotArithmetic):
        assert abs(evaluate(text).number) <= 10**60


@given(st.text(max_size=60))
def test_no_text_does_anything_but_evaluate_or_be_refused(text):
    with contextlib.suppress(NotArithmetic):
        assert isinstance(evaluate(text).number, Fraction)


def test_a_division_by_zero_is_said():
    with pytest.raises(NotArithmetic, match="divides by zero"):
        evaluate("1 / (2 - 2)")
