"""The judge `llm` ranks all siblings at once, in several orders."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astuner.contract.schema import Unjudged
from astuner_devkit.scripted_api import Reply
from astuner_judges.llm.listwise import choose_orders, rank_works
from astuner_judges.llm.options import LlmJudgeOptions
from astuner_judges.llm.questions import Questions
from astuner_judges.llm.shapes import Ranked

Ranks = Callable[..., list[int]]


def by_length(*works: str) -> list[int]:
    """A judge that is consistent where no two are as long."""
    return sorted(range(1, len(works) + 1), key=lambda number: -len(works[number - 1]))


def as_they_come(*works: str) -> list[int]:
    """A judge that goes by the position alone."""
    return list(range(1, len(works) + 1))


def says(judge: Ranks) -> Callable[..., Mapping[str, Any]]:
    return lambda *works: {"rationale": "by length", "ranking": judge(*works)}


def rewards(findings: Sequence[Any]) -> list[float]:
    return [finding.reward for finding in findings]


def test_a_reward_is_the_place_in_the_ranking(bench: Any) -> None:
    bench.answer(says(by_length))
    findings = bench("1", "333", "22", mode="listwise")
    assert rewards(findings) == [0.0, 1.0, 0.5]
    assert [finding.components for finding in findings] == [
        {"rank": 3.0, "position_bias": 0.0},
        {"rank": 1.0, "position_bias": 0.0},
        {"rank": 2.0, "position_bias": 0.0},
    ]
    assert {finding.rationale for finding in findings} == {"by length"}


def test_answers_that_are_equally_good_get_equal_rewards(bench: Any) -> None:
    bench.answer(lambda *works: {"ranking": [list(range(1, len(works) + 1))]})
    findings = bench(*"12345678", mode="listwise")
    assert rewards(findings) == [0.5] * 8
    assert {finding.components["position_bias"] for finding in findings} == {0.0}


def test_some_answers_may_share_a_place(bench: Any) -> None:
    bench.answer(lambda *works: {"ranking": [works.index("best") + 1, [n for n, work in enumerate(works, 1) if work != "best"]]})
    assert rewards(bench("poor", "best", "bad", mode="listwise")) == [0.25, 1.0, 0.25]


def test_an_answer_that_ties_in_one_order_alone_shows_a_bias(bench: Any) -> None:
    bench.api.script = lambda body, number: json.dumps({"ranking": [[[1, 2]], [1, 2]][number]})
    findings = bench("1", "22", mode="listwise", llm={"concurrency": 1})
    assert sorted(rewards(findings)) == [0.25, 0.75]
    assert [finding.components["position_bias"] for finding in findings] == [1.0, 1.0]


def test_the_answers_are_numbered_in_an_order_and_its_reverse(bench: Any) -> None:
    bench.answer(says(by_length))
    bench("1", "22", "333", mode="listwise")
    first, second = bench.shown()
    assert first == second[::-1]
    assert sorted(first) == ["1", "22", "333"]
    assert "Answer 1:\n<answer-" in bench.api.prompts()[0]


def test_a_judge_that_goes_by_the_position_gives_all_the_same_and_is_told_of(bench: Any) -> None:
    bench.answer(says(as_they_come))
    for finding in bench("1", "22", "333", "4444", mode="listwise"):
        assert finding.reward == 0.5
        assert finding.components["position_bias"] == 1.0


def test_the_same_answer_stands_in_the_list_once(bench: Any) -> None:
    bench.answer(says(by_length))
    assert rewards(bench("1", "22", "22", mode="listwise")) == [0.0, 0.75, 0.75]
    assert rewards(bench("22", "22", mode="listwise")) == [0.5, 0.5]
    assert len(bench.api.bodies) == 2


def test_no_answer_is_behind_all_and_is_not_asked_about(bench: Any) -> None:
    bench.answer(says(by_length))
    assert rewards(bench(None, "1", "22", mode="listwise")) == [0.0, 0.5, 1.0]
    assert rewards(bench(None, "1", mode="listwise")) == [0.0, 1.0]
    assert len(bench.api.bodies) == 2


@pytest.mark.parametrize(
    "ranking", [[1, 2], [1, 2, 2], [0, 1, 2], [1, 2, 3, 4], [], [[1, 2]], [1, [2, 3], 3], ["x", "2", "3"]], ids=str
)
def test_a_ranking_that_is_not_one_of_all_is_asked_for_again_and_then_no_verdict(bench: Any, ranking: list[Any]) -> None:
    bench.answer(lambda *works: {"ranking": ranking})
    findings = bench("1", "22", "333", mode="listwise", attempts=2)
    assert [finding.reason for finding in findings] == ["llm_no_verdict"] * 3
    assert "answer.ranking" in findings[0].detail
    assert len(bench.api.bodies) == 4


def test_one_order_alone_is_no_verdict_and_most_of_several_are(bench: Any) -> None:
    bench.api.script = lambda body, number: Reply(500, {}) if number == 0 else '{"ranking": [1, 2, 3]}'
    findings = bench("1", "22", "333", mode="listwise", llm={"concurrency": 1})
    assert all(isinstance(finding, Unjudged) for finding in findings)
    assert findings[0].detail.startswith("1 of 2 questions have no answer; the first: LLM ")
    bench.api.bodies.clear()
    assert len(rewards(bench("1", "22", "333", mode="listwise", orders=4, llm={"concurrency": 1}))) == 3


def test_a_spent_budget_is_no_verdict(bench: Any) -> None:
    findings = bench("1", "22", mode="listwise", llm={"max_requests": 1, "max_total_tokens": 1})
    assert [finding.reason for finding in findings] == ["llm_budget"] * 2


def test_votes_are_rankings_that_count_alike(bench: Any) -> None:
    bench.api.script = lambda body, number: f'{{"ranking": {[[1, 2], [2, 1]][body["seed"]]}}}'
    findings = bench("1", "22", mode="listwise", votes=2, llm={"temperature": 1.0})
    assert len(bench.api.bodies) == 4
    assert rewards(findings) == [0.5, 0.5]


def test_one_sibling_alone_is_explained(bench: Any) -> None:
    (finding,) = bench("1", mode="listwise")
    assert finding.reason == "no_siblings"
    assert "mode: listwise compares" in finding.detail
    assert rewards(bench("1", mode="listwise", lone_reward=1.0)) == [1.0]


@given(st.integers(2, 12), st.integers(2, 12))
def test_orders_are_different_ones_of_all_and_come_with_their_reverse(count: int, wanted: int) -> None:
    works = [str(number) for number in range(count)]
    orders = choose_orders(works, wanted)
    assert len(set(orders)) == len(orders) <= wanted
    assert len(orders) == min(wanted, 2 * count if count > 2 else 2)
    assert all(sorted(order) == sorted(works) for order in orders)
    assert all(order[::-1] in orders for order in orders[: len(orders) // 2 * 2])


class ByOpinion:
    """Stands for the LLM: ranks at once."""

    def __init__(self, judge: Ranks) -> None:
        self.judge = judge

    async def collect_votes(self, messages: Any, shape: Any) -> list[Ranked]:
        works = [part.partition("\n")[2] for part in messages[1]["content"].split("\n\n")]
        return [Ranked(ranking=tuple(self.judge(*works)))]


def judged(works: Sequence[str | None], judge: Ranks, directory: Path, **options: Any) -> list[float]:
    (directory / "list.txt").write_text("{{answers}}")
    given_options = LlmJudgeOptions(mode="listwise", prompt_file="list.txt", **options)
    questions = Questions(given_options, directory, wanted_by="judge")
    asker: Any = ByOpinion(judge)
    slots = {"query": "", "reference": ""}
    return rewards(asyncio.run(rank_works(works, slots, questions=questions, asker=asker, options=given_options, key="k")))


WORKS = st.lists(st.none() | st.integers(1, 9).map("a".__mul__), min_size=2, max_size=9)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), works=WORKS, orders=st.integers(2, 5), judge=st.sampled_from([by_length, as_they_come]))
def test_rewards_go_with_the_siblings_wherever_they_stand(
    data: st.DataObject, works: list[str | None], orders: int, judge: Ranks, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.getbasetemp()
    order = data.draw(st.permutations(range(len(works))))
    expected = judged(works, judge, directory, orders=orders)
    assert judged([works[place] for place in order], judge, directory, orders=orders) == [expected[place] for place in order]


@settings(max_examples=60, deadline=None)
@given(works=WORKS, orders=st.integers(2, 5))
def test_the_order_of_a_consistent_judge_is_found(
    works: list[str | None], orders: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    found = judged(works, by_length, tmp_path_factory.getbasetemp(), orders=orders)
    by_size = {len(work or ""): reward for work, reward in zip(works, found, strict=True)}
    assert [by_size[size] for size in sorted(by_size)] == sorted(set(found))
    assert sum(found) == pytest.approx(len(works) / 2)


@settings(max_examples=40, deadline=None)
@given(works=st.sets(st.integers(1, 9), min_size=2).map(lambda sizes: ["a" * size for size in sizes]), turns=st.integers(1, 3))
def test_a_judge_of_positions_gives_all_the_same(works: list[str], turns: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    found = judged(works, as_they_come, tmp_path_factory.getbasetemp(), orders=2 * turns)
    assert found == pytest.approx([0.5] * len(works))
