"""The judges that ask an LLM keep the contract of judges, in every mode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from astuner_devkit.contracts import JudgeContract
from astuner_devkit.scripted_api import Reply, ScriptedApi

FEW: Mapping[str, Any] = {"max_retries": 0, "concurrency": 4}


class OverAnApi(JudgeContract):
    """Judges over an API that prefers long answers, whatever their order."""

    api: ScriptedApi

    @pytest.fixture(autouse=True)
    def _serve(self, bench: Any) -> None:
        self.api = bench.api
        bench.answer(self.say)

    def say(self, *works: str) -> Mapping[str, Any]:
        longest_first = sorted(range(len(works)), key=lambda place: (-len(works[place]), works[place]))
        winner = "first" if longest_first[0] == 0 else "second"
        return {
            "rationale": "longer",
            "score": min(len(works[0]), 10),
            "winner": winner,
            "ranking": [place + 1 for place in longest_first],
        }

    def break_calls(self, judge: Any) -> None:
        self.api.script = lambda body, number: Reply(500, {})


class TestPointwise(OverAnApi):
    component = "astuner_judges.llm.judge:LlmAsJudge"
    options: ClassVar[Mapping[str, Any]] = {"success_threshold": 5, "llm": FEW}


class TestVotes(OverAnApi):
    component = "astuner_judges.llm.judge:LlmAsJudge"
    options: ClassVar[Mapping[str, Any]] = {"votes": 3, "vote_aggregation": "median", "llm": {**FEW, "temperature": 1.0}}


class TestWithTheConversation(OverAnApi):
    component = "astuner_judges.llm.judge:LlmAsJudge"
    options: ClassVar[Mapping[str, Any]] = {"answer_key": None, "transcript_chars": 500, "language": "zh", "llm": FEW}


class TestPairwise(OverAnApi):
    component = "astuner_judges.llm.judge:LlmAsJudge"
    options: ClassVar[Mapping[str, Any]] = {"mode": "pairwise", "llm": FEW}


class TestPairwiseByStrengths(OverAnApi):
    component = "astuner_judges.llm.judge:LlmAsJudge"
    options: ClassVar[Mapping[str, Any]] = {
        "mode": "pairwise",
        "pairs_per_episode": 1,
        "pair_reward": "bradley_terry",
        "lone_reward": 0.5,
        "llm": FEW,
    }


class TestListwise(OverAnApi):
    component = "astuner_judges.llm.judge:LlmAsJudge"
    options: ClassVar[Mapping[str, Any]] = {"mode": "listwise", "orders": 4, "llm": FEW}


class TestMathAndLlm(OverAnApi):
    component = "astuner_judges.llm.math_and_llm:MathAnswerAndLlmAsJudge"
    options: ClassVar[Mapping[str, Any]] = {"right_quality_weight": 0.5, "math": {"symbolic": False}, "quality": {"llm": FEW}}
