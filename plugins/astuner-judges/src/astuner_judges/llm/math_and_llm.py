"""The judge `math_and_llm`: a right answer earns the full reward; an LLM grades a wrong one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import Attribute, evolve, field, frozen
from attrs.validators import ge

from astuner.contract.protocols import Judge, RunInfo
from astuner.contract.schema import Group, Unjudged, Verdict
from astuner.episodes.judging.simple_judges import EpisodeJudge
from astuner.shared.clients import Budget
from astuner_judges.llm.judge import LlmAsJudge
from astuner_judges.llm.options import LlmJudgeOptions
from astuner_judges.math_judge import MathAnswerAsJudge


@frozen(kw_only=True)
class MathAndLlmOptions:
    """The rewards of right and wrong answers, and how each is judged."""

    right_reward: float = 1.0
    """Of a right answer."""
    wrong_reward: float = 0.0
    """Of a wrong answer of no quality, and of a missing one."""
    quality_weight: float = field(default=0.5, validator=ge(0))
    """What the best quality adds to a wrong answer; with 0, wrong answers are not sent to the LLM."""
    right_quality_weight: float = field(default=0.0, validator=ge(0))
    """What the best quality adds to a right answer; with 0, right answers are not sent to the LLM."""
    math: MathAnswerAsJudge.Options = field(factory=MathAnswerAsJudge.Options)
    """Options of the judge `math`; its rewards are those above."""
    quality: LlmJudgeOptions = field(factory=LlmJudgeOptions)
    """Options of the judge `llm`, with `mode: pointwise`."""

    @quality_weight.validator
    def _leaves_right_answers_ahead(self, attribute: Attribute[Any], value: float) -> None:
        if self.wrong_reward + value > self.right_reward:
            raise ValueError(
                f"a wrong answer could earn {self.wrong_reward + value:g} (wrong_reward + quality_weight), more than the "
                f"right_reward of {self.right_reward:g}"
            )

    @math.validator
    def _has_no_rewards_of_its_own(self, attribute: Attribute[Any], value: MathAnswerAsJudge.Options) -> None:
        plain = MathAnswerAsJudge.Options()
        if (value.success_reward, value.failure_reward) != (plain.success_reward, plain.failure_reward):
            raise ValueError("success_reward and failure_reward have no effect here: set right_reward and wrong_reward")

    @quality.validator
    def _is_about_one_answer(self, attribute: Attribute[Any], value: LlmJudgeOptions) -> None:
        if value.mode != "pointwise":
            raise ValueError(f"mode: {value.mode} compares siblings, of which only some are asked about: take pointwise")
        if value.success_threshold is not None:
            raise ValueError("success_threshold has no effect here: a success is a right answer")


class MathAnswerAndLlmAsJudge(Judge):
    """Judges answers as `math` does, and the quality of those that are wrong as `llm` does.

    An episode is a success when its answer is right. If the LLM fails on an answer, the episode has no reward; right answers
    that it was not asked about keep theirs.
    """

    traits = evolve(LlmAsJudge.traits, compares_siblings=False)
    Options = MathAndLlmOptions

    def __init__(self, options: MathAndLlmOptions, quality: LlmAsJudge) -> None:
        """Store the LLM's part."""
        self._options = options
        self._math = EpisodeJudge(MathAnswerAsJudge(options.math).compute_reward, blame="judge 'math_and_llm'")
        self._quality = quality

    @classmethod
    def from_run(cls, options: MathAndLlmOptions, run_info: RunInfo) -> MathAnswerAndLlmAsJudge:
        """Make both parts; raises what `LlmAsJudge.from_run` raises."""
        return cls(options, LlmAsJudge.from_run(options.quality, run_info, name="math_and_llm"))

    @property
    def budget(self) -> Budget:
        """The usage of the LLM's part."""
        return self._quality.budget

    async def judge(self, group: Group) -> Sequence[Verdict | Unjudged]:
        """Return a verdict per completed episode."""
        completed = [episode for episode in group.episodes if episode.completed]
        by_math = await self._math.judge(group)
        asked = [
            episode
            for episode, verdict in zip(completed, by_math, strict=True)
            if isinstance(verdict, Verdict) and self._weight(verdict) > 0
        ]
        found = await self._quality.judge(evolve(group, episodes=tuple(asked)))
        qualities = {episode.id: verdict for episode, verdict in zip(asked, found, strict=True)}
        return [self._combine(verdict, qualities.get(episode.id)) for episode, verdict in zip(completed, by_math, strict=True)]

    async def close(self) -> None:
        """Close both."""
        await self._math.close()
        await self._quality.close()

    def _weight(self, by_math: Verdict) -> float:
        return self._options.right_quality_weight if by_math.is_success else self._options.quality_weight

    def _combine(self, by_math: Verdict | Unjudged, quality: Verdict | Unjudged | None) -> Verdict | Unjudged:
        if isinstance(by_math, Unjudged):
            return by_math
        if isinstance(quality, Unjudged):
            return quality
        options = self._options
        reward = options.right_reward if by_math.is_success else options.wrong_reward
        components: Mapping[str, float] = {"math": by_math.reward}
        if quality is None:
            return Verdict(reward, by_math.is_success, components=components)
        components = {**components, "quality": quality.reward, **quality.components}
        reward += self._weight(by_math) * quality.reward
        return Verdict(reward, by_math.is_success, components=components, rationale=quality.rationale)
