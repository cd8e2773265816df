"""The judge `math_and_llm`: right answers earn the whole reward, and the LLM is asked about the others."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from astuner.contract.errors import ConfigError
from astuner.contract.schema import Task, Unjudged, Verdict
from astuner_devkit.scripted_api import Reply
from astuner_judges.llm.math_and_llm import MathAnswerAndLlmAsJudge


def judged(bench: Any, *answers: Any, **options: Any) -> list[Any]:
    options = {"math": {"symbolic": False}, **options, "quality": {"llm": {"max_retries": 0}, **options.get("quality", {})}}
    found: list[Any] = bench.by(bench.judge(options, MathAnswerAndLlmAsJudge), *answers)
    return found


def test_a_right_answer_earns_all_and_a_wrong_one_its_quality(bench: Any) -> None:
    bench.answer(lambda work: {"rationale": "a slip", "score": 6})
    assert judged(bench, "The answer is 4.", "5") == [
        Verdict(1.0, True, components={"math": 1.0}),
        Verdict(0.3, False, components={"math": 0.0, "quality": 0.6, "score": 6.0}, rationale="a slip"),
    ]
    assert bench.shown() == [["5"]]


def test_right_answers_are_asked_about_on_request(bench: Any) -> None:
    bench.answer(lambda work: {"score": 10 if work == "4" else 5})
    right, wrong = judged(bench, "4", "5", right_quality_weight=0.2, quality_weight=0.1, wrong_reward=-1, right_reward=2)
    assert (right.reward, wrong.reward) == (pytest.approx(2.2), pytest.approx(-0.95))
    assert (right.is_success, wrong.is_success) == (True, False)


def test_with_no_weight_the_llm_is_asked_nothing(bench: Any) -> None:
    assert [finding.reward for finding in judged(bench, "4", "5", quality_weight=0)] == [1.0, 0.0]
    assert bench.api.bodies == []


def test_no_answer_is_wrong_and_of_no_quality(bench: Any) -> None:
    assert [finding.reward for finding in judged(bench, None)] == [0.0]
    assert bench.api.bodies == []


def test_a_quality_that_is_looked_for_under_another_key_is_no_bad_one(bench: Any) -> None:
    right, wrong = judged(bench, "4", "5", quality={"answer_key": "solution"})
    assert right.reward == 1.0
    assert isinstance(wrong, Unjudged)
    assert wrong.reason == "no_answer"
    assert "no metadata['solution'] (there is: final_answer)" in wrong.detail


def test_where_the_llm_fails_right_answers_keep_their_reward(bench: Any) -> None:
    bench.answer(lambda work: Reply(500, {}))
    right, wrong = judged(bench, "4", RuntimeError(), "5")
    assert right.reward == 1.0
    assert isinstance(wrong, Unjudged)
    assert wrong.reason == "llm_failed"


def test_without_a_right_answer_nothing_is_judged(bench: Any) -> None:
    (finding,) = judged(evolve(bench, task=Task("How much?")), "5")
    assert finding.reason == "judge_error"
    assert "has no right answer in metadata['answer']" in finding.detail
    assert bench.api.bodies == []


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"quality_weight": 1.5}, r"could earn 1.5 \(wrong_reward \+ quality_weight\), more than the right_reward of 1"),
        ({"quality": {"mode": "pairwise"}}, "mode: pairwise compares siblings.*take pointwise"),
        ({"quality": {"success_threshold": 5}}, "a success is a right answer"),
        ({"math": {"success_reward": 2.0}}, "set right_reward and wrong_reward"),
        ({"quality": {"max_score": 0}}, "max_score"),
    ],
    ids=str,
)
def test_options_that_make_no_sense_are_found_at_the_start(bench: Any, options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        judged(bench, "4", **options)
