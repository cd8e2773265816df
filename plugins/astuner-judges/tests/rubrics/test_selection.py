"""Which rubrics are kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astuner_judges.rubrics.evidence import Evidence, choose_others, evidence_order
from astuner_judges.rubrics.examples import Example
from astuner_judges.rubrics.selection import Candidate, Selection

AXES = np.eye(4)


def candidate(text: str, agreement: float = 1.0) -> Candidate:
    right = round(10 * agreement)
    return Candidate(text=text, evidence=Evidence(good=(1.0,) * right + (0.0,) * (10 - right)))


def selection(**more: Any) -> Selection:
    return Selection(**{"per_round": 10, "most": 10, "min_increment": 0.002, **more})


def texts(chosen: Selection) -> list[str]:
    return [one.text for one in chosen.chosen]


def test_what_repeats_another_is_not_chosen() -> None:
    made = selection()
    made.add([candidate("b"), candidate("a"), candidate("c")], AXES[[0, 0, 1]])
    assert texts(made) == ["a", "c"]


def test_the_one_with_more_agreement_comes_first_and_ties_go_by_the_alphabet() -> None:
    made = selection()
    made.add([candidate("z", 1.0), candidate("y", 0.9), candidate("x", 1.0)], AXES[[0, 1, 2]])
    assert texts(made) == ["x", "z", "y"]


def test_of_two_that_say_the_same_the_better_is_kept() -> None:
    made = selection()
    made.add([candidate("a", 0.7), candidate("b", 0.9)], AXES[[0, 0]])
    assert texts(made) == ["b"]


def test_one_that_is_right_by_chance_adds_nothing() -> None:
    made = selection()
    assert made.add([candidate("a", 0.5)], AXES[[0]]) == 0.0
    assert texts(made) == []


def test_rounds_and_the_whole_have_limits() -> None:
    made = selection(per_round=1, most=2)
    pool = [candidate(text) for text in "abc"]
    gains = [made.add(pool, AXES[[0, 1, 2]]) for _ in range(3)]
    assert texts(made) == ["a", "b"]
    assert gains[0] > gains[1] > gains[2] == 0.0


def test_an_increment_below_the_threshold_ends_a_round() -> None:
    made = selection(min_increment=100.0)
    made.add([candidate("a")], AXES[[0]])
    assert texts(made) == []


@given(order=st.permutations(range(4)))
def test_the_order_of_the_pool_does_not_matter(order: list[int]) -> None:
    pool = [candidate("a", 0.9), candidate("b", 0.9), candidate("c", 0.8), candidate("d", 0.8)]
    vectors = np.array([[1, 0, 0], [0.8, 0.6, 0], [0, 1, 0], [0, 0, 1]], float)
    straight, turned = selection(most=3), selection(most=3)
    straight.add(pool, vectors)
    turned.add([pool[place] for place in order], vectors[order])
    assert texts(turned) == texts(straight)


def test_good_and_bad_examples_weigh_the_same() -> None:
    assert Evidence(good=(1.0,) * 9, bad=(0.0,)).agreement == 0.5
    assert Evidence(good=(1.0,) * 9, bad=(0.0,)).skill == 0.0


def test_a_failed_verdict_is_no_evidence() -> None:
    assert Evidence(good=(1.0,), bad=(1.0,), failed=7).agreement == 1.0
    assert Evidence(failed=7).agreement == 0.0
    assert Evidence(failed=7).count == 0


def example(number: int, good: bool) -> Example:
    return Example(query=f"q{number}", answers=("a",), labels=(float(good),), is_good=good, place=str(number))


def test_evidence_is_taken_from_good_and_bad_by_turns() -> None:
    examples = [example(number, good=number < 2) for number in range(8)]
    first = [examples[place].is_good for place in evidence_order(examples, seed=3)]
    assert first[:4] == [True, False, True, False]
    assert sorted(evidence_order(examples, seed=3)) == list(range(8))


def test_a_rubrics_own_examples_are_no_evidence_for_it() -> None:
    examples = [example(number, good=True) for number in range(4)]
    assert choose_others(range(4), examples, examples[1].digests, most=2) == [0, 2]


@pytest.mark.parametrize("seed", [1, 2])
def test_the_same_seed_gives_the_same_order(seed: int) -> None:
    examples = [example(number, good=number % 2 == 0) for number in range(20)]
    assert evidence_order(examples, seed) == evidence_order(examples, seed)
    assert evidence_order(examples, seed) != evidence_order(examples, seed + 10)
