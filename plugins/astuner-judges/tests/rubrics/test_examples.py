"""The examples that rubrics are learnt from, and the names of what is learnt."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astuner_judges.evaluation.labelled import digest, digest_of_question
from astuner_judges.rubrics.examples import Example, make_counterexamples
from astuner_judges.rubrics.rubric import Theme, make_names_distinct


def good(query: str, answer: str) -> Example:
    return Example(query=query, answers=(answer,), labels=(1.0,), is_good=True, place="here")


def pairs(examples: Sequence[Example]) -> set[tuple[str, str]]:
    return {(example.query, *example.answers) for example in examples}


@pytest.mark.parametrize("seed", range(5))
def test_another_right_answer_to_the_same_question_is_no_bad_example(seed: int) -> None:
    examples = [good("1?", "one"), good(" 1? ", "a single one"), good("1?", "I"), good("2?", "two")]
    bad = make_counterexamples(examples, 0.0, seed)
    assert [(one.labels, one.is_good) for one in bad] == [((0.0,), False)] * len(bad)
    assert {one.answers[0] for one in bad if one.query.strip() == "1?"} == {"two"}
    assert {one.answers[0] for one in bad if one.query == "2?"} <= {"one", "a single one", "I"}


def test_questions_that_are_the_same_but_for_their_layout_have_no_bad_examples() -> None:
    assert make_counterexamples([good("How  many?", "four"), good("how many? ", "4")], 0.0, 1) == []


def test_an_answer_that_is_right_for_both_questions_is_no_bad_example() -> None:
    examples = [good("2 + 2?", "four"), good("2 + 2?", "4"), good("1 + 3?", "Four"), good("1 + 1?", "two")]
    bad = pairs(make_counterexamples(examples, 0.0, 1))
    assert ("2 + 2?", "Four") not in bad
    assert ("2 + 2?", "two") in bad


@given(rows=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("wxyz")), unique=True), seed=st.integers(0, 9))
def test_bad_examples_are_new_and_their_answers_belong_to_other_questions(rows: list[tuple[str, str]], seed: int) -> None:
    examples = [good(query, answer) for query, answer in rows]
    bad = make_counterexamples(examples, 0.0, seed)
    digests = [digest(*pair) for pair in pairs(bad)]
    assert len(digests) == len(bad)
    assert not {*digests} & {one for example in examples for one in example.digests}
    assert all(any(own.answers == one.answers and own.query != one.query for own in examples) for one in bad)
    assert {digest_of_question(one) for one in digests} <= {digest_of_question(digest(query, "")) for query, _ in rows}


def names(*given_names: str) -> list[str]:
    return [theme.name for theme in make_names_distinct(Theme(name=name, theme="Be kind.") for name in given_names)]


@pytest.mark.parametrize(
    ("given_names", "expected"),
    [
        (("x", "x"), ["x", "x_2"]),
        (("x", "x_3", "x"), ["x", "x_3", "x_4"]),
        (("x", "x_2", "x_3", "x"), ["x", "x_2", "x_3", "x_4"]),
        (("", "!", "Be Kind!"), ["theme_1", "theme_2", "be_kind"]),
        (("Position bias",), ["position_bias_1"]),
    ],
)
def test_themes_are_named_apart(given_names: tuple[str, ...], expected: list[str]) -> None:
    assert names(*given_names) == expected


@given(given_names=st.lists(st.sampled_from(["x", "x_2", "x_3", "x_4", "X!", "", "y" * 60]), max_size=8))
def test_no_two_themes_have_the_same_name(given_names: list[str]) -> None:
    assert len({*names(*given_names)}) == len(given_names)
