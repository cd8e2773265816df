"""The score of an environment is computed once per episode, whoever asks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from astuner.contract.protocols import EnvironmentTraits, Judge, read_traits
from astuner.contract.schema import Verdict
from astuner.episodes.rollout.environments.scored_once import ScoredOnce


class Counts:
    """An environment that gives another score each time."""

    traits = EnvironmentTraits(has_sparse_score=True)

    def __init__(self) -> None:
        self.evaluated = 0

    async def step(self, action: Any) -> Any:
        return [], 0.0, False, {}

    async def evaluate(self, sparse: bool = False, params: Any = None) -> float:
        self.evaluated += 1
        await asyncio.sleep(0)
        if params == "fails once" and self.evaluated == 1:
            raise OSError("busy")
        return self.evaluated + 0.5 * sparse


def scores(*questions: dict[str, Any] | str) -> list[float]:
    """Ask an environment in this order; a text is an action."""

    async def ask() -> list[float]:
        environment = ScoredOnce(Counts())
        return [
            await environment.evaluate(**question)
            for question in questions
            if isinstance(question, dict) or not await environment.step(question)
        ]

    return asyncio.run(ask())


def test_the_same_question_is_asked_once() -> None:
    assert scores({}, {}, {"sparse": False}, {"sparse": False}) == [1.0] * 4


def test_two_who_ask_at_once_get_one_score() -> None:
    async def ask() -> list[float]:
        environment = ScoredOnce(Counts())
        return await asyncio.gather(environment.evaluate(), environment.evaluate(sparse=False))

    assert asyncio.run(ask()) == [1.0, 1.0]


def test_one_who_stops_waiting_leaves_the_score_to_the_others() -> None:
    async def ask() -> float:
        environment = ScoredOnce(Counts())
        first, second = environment.evaluate(), environment.evaluate()
        first.cancel()
        return await second

    assert asyncio.run(ask()) == 1.0


def test_options_of_any_kind_are_part_of_the_question() -> None:
    assert scores({"params": {"a": [1]}}, {"params": {"a": [2]}}, {"params": {"a": [1]}}) == [1.0, 2.0, 1.0]


def test_an_option_may_be_given_by_its_place() -> None:
    async def ask() -> float:
        return await ScoredOnce(Counts()).evaluate(True)

    assert asyncio.run(ask()) == 1.5


def test_a_failure_is_not_remembered() -> None:
    async def ask() -> float:
        environment = ScoredOnce(Counts())
        with pytest.raises(OSError, match="busy"):
            await environment.evaluate(params="fails once")
        return await environment.evaluate(params="fails once")

    assert asyncio.run(ask()) == 2.0


def test_another_question_is_asked_on_its_own() -> None:
    assert scores({"sparse": True}, {}, {"sparse": True}) == [1.5, 2.0, 1.5]


def test_an_action_makes_the_score_out_of_date() -> None:
    assert scores({}, "left", {}) == [1.0, 2.0]


def test_everything_else_is_the_environments() -> None:
    assert read_traits(ScoredOnce(Counts()), EnvironmentTraits).has_sparse_score


def test_the_loop_and_the_judge_get_one_score(games: Any) -> None:
    class Asks(Judge):
        async def observe(self, episode: Any, environment: Any) -> dict[str, float]:
            return {"score": await environment.evaluate(), "again": await environment.evaluate()}

        async def judge(self, group: Any) -> list[Verdict]:
            return [Verdict(episode.observations["again"]) for episode in group.episodes]

    games.judge = Asks()
    episode = games.play("Guess", "7")
    assert games.log("Guess") == ["reset", "step 7", "evaluate", "close"]
    assert episode.reward == episode.output.metadata["score"] == 1.0
