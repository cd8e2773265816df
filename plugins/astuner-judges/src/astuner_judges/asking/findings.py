"""What a judge says when its LLM gave no verdict."""

from __future__ import annotations

from astuner.clients.llm import LLMFailed
from astuner.clients.llm_budget import LLMBudgetSpent
from astuner.schema import Unjudged


def no_verdict(error: LLMFailed | LLMBudgetSpent) -> Unjudged:
    """Return the finding for an LLM that failed (`llm_failed`) or that may not be asked any more (`llm_budget`)."""
    return Unjudged(reason="llm_budget" if isinstance(error, LLMBudgetSpent) else "llm_failed", detail=str(error))
