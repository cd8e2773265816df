"""Asking the LLM a question once per vote."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from astuner.contract.schema import Unjudged
from astuner.shared.clients import LLMBudgetSpent, LLMClient, LLMFailed, ask_for_json
from astuner_judges.asking import explain_failure, is_due_to_texts

Shape = TypeVar("Shape")


class Asker:
    """Asks questions and returns typed answers, or `Unjudged` if there are none."""

    def __init__(self, client: LLMClient, *, max_tokens: int, attempts: int, votes: int, first_seed: int) -> None:
        """Store how often to ask; each vote has its own seed, counted from `first_seed`, so that a cache keeps them apart."""
        self.client = client
        self._max_tokens, self._attempts = max_tokens, attempts
        self._seeds = range(first_seed, first_seed + votes)

    async def collect_votes(self, messages: Sequence[Mapping[str, Any]], shape: type[Shape]) -> list[Shape] | Unjudged:
        """Return the votes if enough of them came, else the reason."""
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
    """Return the answers if they are more than half; else the first failure, with the number of failures.

    Only failures of the surroundings are left out: a text that makes the LLM fail where it would lose must not win by the rest.
    """
    given = [one for one in found if not isinstance(one, Unjudged)]
    failures = [one for one in found if isinstance(one, Unjudged)]
    caused = [failure for failure in failures if is_due_to_texts(failure)]
    if not caused and (not failures or len(given) * 2 > len(found)):
        return given
    first = (caused or failures)[0]
    told = (
        first.detail
        if len(found) == 1
        else f"{len(failures)} of {len(found)} questions have no answer; the first: {first.detail}"
    )
    return Unjudged(reason=first.reason, detail=told)
