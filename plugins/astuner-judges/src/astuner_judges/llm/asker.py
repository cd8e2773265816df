"""Asking the LLM one question, as often as there are votes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from astuner.clients.llm import LLMClient, LLMFailed
from astuner.clients.llm_budget import LLMBudgetSpent
from astuner.clients.llm_json import ask_for_json
from astuner.schema import Unjudged
from astuner_judges.asking import explain_failure

Shape = TypeVar("Shape")


class Asker:
    """Puts questions and hands back typed answers, or `Unjudged` when there are none."""

    def __init__(self, client: LLMClient, *, max_tokens: int, attempts: int, votes: int, first_seed: int) -> None:
        """Keep how often to ask; each vote has a seed of its own, counted from `first_seed`, so that a cache tells them apart."""
        self.client = client
        self._max_tokens, self._attempts = max_tokens, attempts
        self._seeds = range(first_seed, first_seed + votes)

    async def collect_votes(self, messages: Sequence[Mapping[str, Any]], shape: type[Shape]) -> list[Shape] | Unjudged:
        """Return the votes that came, where they are more than half of those asked for, else why not."""
        found = await asyncio.gather(*(self._cast_vote(messages, shape, seed) for seed in self._seeds))
        return require_majority(found)

    async def _cast_vote(self, messages: Sequence[Mapping[str, Any]], shape: type[Shape], seed: int) -> Shape | Unjudged:
        more = {"seed": seed} if len(self._seeds) > 1 else {}
        try:
            answer, _ = await ask_for_json(
                self.client, messages, shape, max_tokens=self._max_tokens, attempts=self._attempts, **more
            )
        except (LLMFailed, LLMBudgetSpent) as error:
            return explain_failure(error)
        return answer


def require_majority(found: Sequence[Shape | Unjudged]) -> list[Shape] | Unjudged:
    """Return what is no failure, where that is more than half; else the first failure, with how many there were."""
    given = [one for one in found if not isinstance(one, Unjudged)]
    failures = [one for one in found if isinstance(one, Unjudged)]
    if not failures or len(given) * 2 > len(found):
        return given
    first = failures[0]
    told = (
        first.detail
        if len(found) == 1
        else f"{len(failures)} of {len(found)} questions have no answer; the first: {first.detail}"
    )
    return Unjudged(reason=first.reason, detail=told)
