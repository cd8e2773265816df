"""Records an episode in which the environment leads, as the workflow's output."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from attrs import define, field

from astuner.contract.plain_values import make_plain, read_bool
from astuner.contract.schema import Message, WorkflowOutput
from astuner.episodes.rollout.environments.guarded_environment import Step
from astuner.model.reasoning import split_thought

Ended = Literal["done", "max_steps", "context_full"]

LONGEST_INFO = 1 << 16
"""Characters of JSON that the info of a step may take in the record."""
LONGEST_INFOS = 1 << 20
"""Characters of JSON that all infos of an episode may take."""


@define(eq=False)
class EpisodeRecord:
    """Collects what happens in an episode."""

    environment: str
    messages: list[Message] = field(factory=list)
    """The whole conversation, whatever the model was shown of it."""
    rewards: list[float] = field(factory=list)
    """One per step."""
    infos: list[Any] = field(factory=list)
    """One per step, as JSON values."""
    is_success: bool | None = None
    actions_not_found: int = 0
    messages_clipped: int = 0
    infos_left_out: int = 0
    _info_characters: int = 0

    @property
    def steps(self) -> int:
        """How many actions were taken."""
        return len(self.rewards)

    def add(self, reply: Message, step: Step, messages: Iterable[Message]) -> None:
        """Add an answer and the step that followed; `messages` are those of the step, clipped."""
        self.messages += [reply, *messages]
        self.rewards.append(step.reward)
        self.infos.append(self._limit_info(step.info))
        success = read_bool(step.info.get("is_success"))
        self.is_success = self.is_success if success is None else success

    def build_output(self, *, ended: Ended, score: float, gives_reward: bool, messages_mended: int) -> WorkflowOutput:
        """Return the output; the score is the reward when there is no judge."""
        answers = [message for message in self.messages if message.get("role") == "assistant"]
        return WorkflowOutput(
            reward=score if gives_reward else None,
            is_success=self.is_success,
            metadata={
                "environment": self.environment,
                "ended": ended,
                "score": score,
                "final_answer": split_thought(str(answers[-1].get("content") or ""))[1] if answers else "",
                "messages": self.messages,
                "rewards": self.rewards,
                "infos": self.infos,
            },
            log_metrics={
                "steps": float(self.steps),
                "reward_sum": sum(self.rewards),
                "score": score,
                "out_of_steps": float(ended == "max_steps"),
                "context_full": float(ended == "context_full"),
                "actions_not_found": float(self.actions_not_found),
                "messages_clipped": float(self.messages_clipped),
                "messages_mended": float(messages_mended),
                "infos_left_out": float(self.infos_left_out),
            },
        )

    def _limit_info(self, info: Mapping[str, Any]) -> Any:
        """Return an info as JSON values: other values become text, and an info that is too long is only counted."""
        plain = make_plain(info).value
        text = json.dumps(plain, ensure_ascii=False)
        if len(text) > LONGEST_INFO or self._info_characters + len(text) > LONGEST_INFOS:
            self.infos_left_out += 1
            return {"left_out": f"{len(text)} characters"}
        self._info_characters += len(text)
        return plain
