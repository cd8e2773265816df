from __future__ import annotations

from itertools import product
from random import Random

from astuner_local.tiny.arithmetic import HELD_OUT, SHOWN, ask, distinct_questions


def test_no_number_is_both_shown_and_held_out() -> None:
    assert set() == set(SHOWN) & set(HELD_OUT)


def test_no_product_of_held_out_numbers_is_one_of_shown_numbers() -> None:
    shown = {a * b for a, b in product(SHOWN, SHOWN)}
    assert set() == shown & {a * b for a, b in product(HELD_OUT, HELD_OUT)}


def test_every_product_has_four_digits() -> None:
    assert {4} == {len(str(a * b)) for a, b in product([*SHOWN, *HELD_OUT], repeat=2)}


def test_each_digit_of_a_held_out_number_is_shown_in_its_place() -> None:
    shown = {(place, digit) for number in SHOWN for place, digit in enumerate(str(number))}
    assert shown >= {(place, digit) for number in HELD_OUT for place, digit in enumerate(str(number))}


def test_a_question_names_its_operands_in_their_order() -> None:
    question = ask(Random(3), SHOWN)
    assert f"{question.a} * {question.b}" in question.text


def test_questions_are_distinct_and_the_same_for_a_seed() -> None:
    first, second = (distinct_questions(Random(1), HELD_OUT, 64) for _ in range(2))
    assert first == second
    assert len({question.text for question in first}) == 64
