"""Made-up token trees, for tests of trackers and other users of recorded calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING

import numpy as np
from attrs import frozen

from astuner.contract.schema import Call, WeightSpan
from astuner.contract.token_streams import prompt_length, stream_ids, stream_length

if TYPE_CHECKING:
    from astuner.contract.schema import Ids

FIRST_SAMPLED = 1000
"""Ids below it are fed. Each id from here on is sampled, and only once in an episode, so that it identifies its origin."""

AGENTS = ("planner", "solver", "critic")
REASONS = ("frozen_agent", "constrained", "aborted", "context_length_exceeded")
MOVES = ("root", "continue", "continue", "continue", "retry", "inside", "rewind")
"""How a call begins: without parent; after its whole parent; from its parent's prompt; inside its parent's output; before its
parent's output."""


@frozen(kw_only=True, eq=False)
class Origin:
    """The origin of a sampled id."""

    call: Call
    place: int
    """Position in the call's output."""
    prefix: Ids
    """The ids before it when it was sampled."""

    @property
    def logprob(self) -> float:
        """Its recorded log-probability."""
        return float(self.call.logprobs[self.place])


def make_up_calls(random: Random, most: int = 12) -> tuple[Call, ...]:
    """Return an episode's calls: conversations that continue, branch, are retried, are cut, or may not be trained.

    Every agent has its own trees. All sampled ids of the episode are different, and so are their log-probabilities.
    """
    agents = AGENTS[: random.randint(1, len(AGENTS))]
    frozen_agents = {agent for agent in agents[1:] if random.random() < 0.25}
    calls: list[Call] = []
    for _ in range(random.randint(1, most)):
        agent = random.choice(agents)
        untrained = "frozen_agent" if agent in frozen_agents else None
        if untrained is None and random.random() < 0.2:
            untrained = random.choice(REASONS[1:])
        calls.append(_make_up_call(random, calls, agent, untrained))
    return tuple(calls)


def find_origins(calls: Sequence[Call]) -> Mapping[int, Origin]:
    """Return the origin of each sampled id of an episode."""
    found = {}
    for call in calls:
        stream = stream_ids(calls, call.index)
        start = prompt_length(call)
        for place, number in enumerate(call.output_ids.tolist()):
            found[number] = Origin(call=call, place=place, prefix=stream[: start + place])
    return found


def _make_up_call(random: Random, calls: Sequence[Call], agent: str, untrained: str | None) -> Call:
    own = [call for call in calls if call.agent == agent]
    move = random.choice(MOVES) if own else "root"
    # Mostly the last one: conversations grow.
    parent = None if move == "root" else own[-1] if random.random() < 0.7 else random.choice(own)
    kept = 0 if parent is None else _choose_kept(random, parent, move)
    fed = random.randint(1, 5) if parent is None or move != "retry" else 0
    sampled = 0 if random.random() < 0.1 else random.randint(1, 6)
    first = FIRST_SAMPLED + sum(len(call.output_ids) for call in calls)
    output = np.arange(first, first + sampled, dtype=np.int32)
    return Call(
        index=len(calls),
        agent=agent,
        target_tag=agent,
        parent=None if parent is None else parent.index,
        kept=kept,
        prompt_ids=np.asarray([random.randrange(1, FIRST_SAMPLED) for _ in range(fed)], np.int32),
        output_ids=output,
        logprobs=(-output / 1024).astype(np.float32),
        finish_reason="abort" if untrained == "aborted" else random.choice(("stop", "stop", "length", "context")),
        weights=(WeightSpan(start=0, version=len(calls) // 4),) if sampled else (),
        untrained=untrained,
        messages=({"role": "user", "content": f"question {len(calls)}"},),
        reply={"role": "assistant", "content": f"answer {len(calls)}"},
    )


def _choose_kept(random: Random, parent: Call, move: str) -> int:
    if move == "retry":
        return prompt_length(parent)
    if move == "inside" and len(parent.output_ids) > 1:
        return prompt_length(parent) + random.randrange(1, len(parent.output_ids))
    if move == "rewind":
        return random.randint(1, prompt_length(parent))
    return stream_length(parent)
