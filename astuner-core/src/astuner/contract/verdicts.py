"""How an episode ends: a failure, a verdict, or the reason for none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve, field, frozen

from astuner.contract.plain_values import read_text


def to_mapping(value: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return a mapping of one's own; an empty one for None."""
    return dict(value or {})


@frozen(kw_only=True)
class Failure:
    """The reason why an episode has no result."""

    reason: str = field(converter=read_text)
    """A code: `timeout`, `workflow_error`, `max_steps`, `context_full`, `environment_error`, `engine_lost`…"""
    detail: str = field(default="", converter=read_text)
    attempt: int = 0
    retried: bool = False
    calls: int = 0
    """Model calls of this attempt."""
    tokens: int = 0
    """Tokens sampled in this attempt."""
    place: str = field(default="", converter=read_text)
    """Where the user's own code raised, as `agent.py:12 in solve`; empty if it did not."""
    traceback: str = field(default="", converter=read_text)
    """The traceback of what it raised, from its own first line on."""


@frozen(kw_only=True)
class Finding:
    """Evidence of abnormal behaviour that a detector found in one call."""

    call: int
    """Its index in the episode."""
    evidence: str = field(converter=read_text)


@frozen
class Verdict:
    """A judge's verdict on one episode."""

    reward: float
    is_success: bool | None = None
    rewards: Mapping[str, float] | None = None
    """Per agent name, where agents are rewarded differently; agents not named get `reward`."""
    components: Mapping[str, float] = field(factory=dict, converter=to_mapping)
    """Named parts of the reward, each logged as `reward/<name>`; as `reward/component/<name>` if that name is taken."""
    rationale: str | None = None
    presumed: bool = False
    """Whether `is_success` is False without a judge: the episode failed, was abnormal or did not pass a gate. It
    counts where the success of other episodes is known."""


BY_ANSWER = frozenset({"judge_error", "bad_verdict", "judge_timeout", "abstained"})
"""Reasons for no verdict that what the model wrote may have caused: the judge's own code failed on it."""


@frozen(kw_only=True)
class Unjudged:
    """Why an episode has no verdict. It is never a reward of 0, unless `rollout.failure_rewards.judge_error` says so."""

    reason: str = field(converter=read_text)
    detail: str = field(default="", converter=read_text)
    place: str = field(default="", converter=read_text)
    """Where the judge raised, if it did, as `judge.py:12 in score`."""
    traceback: str = field(default="", converter=read_text)
    reward: float | None = None
    """What `rollout.failure_rewards.judge_error` makes of it; None leaves the episode out of its group."""

    @property
    def by_answer(self) -> bool:
        """Whether what the model wrote may have caused it; otherwise the surroundings did, such as a service."""
        return self.reason in BY_ANSWER

    @property
    def is_success(self) -> bool | None:
        """False if the answer may have caused it; else None."""
        return False if self.by_answer else None

    def with_worth(self, reward: float | None) -> Unjudged:
        """Return this with the reward of `rollout.failure_rewards.judge_error`, if the answer may have caused it."""
        return evolve(self, reward=reward) if self.by_answer else self
