"""The judge `env_service`: the environment's own score, shaped by weights."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest
from attrs import evolve

from astuner.contract.errors import ConfigError, DataError
from astuner.contract.protocols import EnvironmentTraits
from astuner.contract.schema import Group, Unjudged, Verdict
from astuner.settings.plugins.options import build_options
from astuner_devkit.contracts import JudgeContract
from astuner_devkit.episodes import episode, group
from astuner_env_service.judge import EnvServiceJudge

ORIGINAL = {"score_weight": 0.5, "success_bonus": 1.0}
"""What the reward was before the weights were options: 1 + 0.5 r for a success, else 0.5 r."""


class Scored:
    """An environment with a score."""

    def __init__(self, score: float = 0.25) -> None:
        self.score = score

    async def evaluate(self) -> float:
        return self.score


class ScoredTwice(Scored):
    """One that tells right or wrong apart."""

    traits = EnvironmentTraits(has_sparse_score=True)

    async def evaluate(self, sparse: bool = False) -> float:
        return float(self.score >= 1) if sparse else self.score


def judge(**options: Any) -> EnvServiceJudge:
    return EnvServiceJudge(EnvServiceJudge.Options(**options))


def observed(made: EnvServiceJudge, environment: Any) -> Mapping[str, Any]:
    return asyncio.run(made.observe(episode(0, None), environment))


def found(score: Any, **options: Any) -> Verdict | Unjudged:
    one = evolve(episode(0, None), observations={"score": score}, verdict=None)
    return asyncio.run(judge(**options).judge(group(one)))[0]


def test_by_default_the_reward_is_the_plain_score():
    assert found(0.25) == Verdict(0.25, False, components={"score": 0.25})
    assert found(1) == Verdict(1.0, True, components={"score": 1.0})


@pytest.mark.parametrize(("score", "reward"), [(1.0, 1.5), (2.0, 2.0), (0.8, 0.4), (0.0, 0.0), (-1.0, -0.5)])
def test_the_original_shaping_can_be_written(score, reward):
    verdict = found(score, **ORIGINAL)
    assert (verdict.reward, verdict.components) == (reward, {"score": score})


@pytest.mark.parametrize(("score", "reward", "is_success"), [(0.5, 2.5, True), (0.25, -0.5, False)])
def test_threshold_bonus_and_penalty_are_options(score, reward, is_success):
    verdict = found(score, score_weight=2.0, success_threshold=0.5, success_bonus=1.5, failure_penalty=1.0)
    assert (verdict.reward, verdict.is_success) == (reward, is_success)


def test_the_environment_is_asked_while_it_lives():
    assert observed(judge(), Scored()) == {"score": 0.25}
    assert observed(judge(), ScoredTwice()) == {"score": 0.25}
    assert observed(judge(sparse=True), ScoredTwice()) == {"score": 0.0}


def test_a_sparse_score_that_there_is_not_is_refused():
    with pytest.raises(DataError, match="has one score only"):
        observed(judge(sparse=True), Scored())


def test_without_an_environment_there_is_no_score():
    with pytest.raises(DataError, match=r"was played in no environment \(env_type 'no_env'\)"):
        observed(judge(), None)


@pytest.mark.parametrize("score", [None, "1.0", True, math.nan, math.inf, [1]])
def test_what_is_no_score_is_no_verdict(score):
    assert found(score) == Unjudged(
        reason="no_score", detail=f"judge 'env_service': the environment gave {score!r}, and no score"
    )


@pytest.mark.parametrize("values", [{"score_weight": math.inf}, {"success_bonus": "much"}, {"succes_bonus": 1.0}])
def test_weights_are_checked(values):
    with pytest.raises(ConfigError, match=r"section\.succ?es|section\.score_weight"):
        build_options(EnvServiceJudge, values, key="section")


class TestEnvService(JudgeContract):
    component = "astuner_env_service.judge:EnvServiceJudge"
    options: ClassVar[Mapping[str, Any]] = ORIGINAL

    def group(self) -> Group:
        scores = (1.0, 0.25, 0.0)
        completed = [evolve(episode(n, None), observations={"score": score}, verdict=None) for n, score in enumerate(scores)]
        return group(*completed, evolve(episode(3, None), output=None, verdict=None))
