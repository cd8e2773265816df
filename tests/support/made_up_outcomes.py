"""What estimators see of episodes, made up: as many calls and tokens as a test wants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from attrs import evolve

from astuner.contract.protocols import Outcome, Streams
from astuner.contract.schema import Verdict, WorkflowOutput
from astuner_devkit.episodes import episode


def play(
    reward: float,
    *,
    told: Sequence[str] = ("go",),
    rewards: Sequence[float] | None = None,
    agent: str = "agent",
    components: Mapping[str, float] | None = None,
    tokens: int = 2,
    scores: Mapping[str, Any] | None = None,
) -> Outcome:
    """Return an episode of one call for each text that the model reads, with as many tokens each."""
    played = episode(0, reward)
    calls = tuple(
        evolve(played.calls[0], index=number, agent=agent, messages=({"role": "user", "content": text},))
        for number, text in enumerate(told)
    )
    output = WorkflowOutput(metadata={} if rewards is None else {"rewards": list(rewards)})
    played = evolve(played, calls=calls, output=output, verdict=Verdict(reward, components=components or {}))
    count = tokens * len(told)
    return Outcome(
        episode=played,
        agent=agent,
        reward=reward,
        returns=np.full(count, reward),
        logprobs=np.full(count, -1.0),
        calls=np.repeat(np.arange(len(told)), tokens),
        scores=scores or {},
    )


def advantages_of(streams: Sequence[Streams]) -> list[Any]:
    return [np.asarray(one.advantages).round(4).tolist() for one in streams]
