"""What a judge returns if its LLM gave no verdict, or if there is nothing to ask it about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from astuner.contract.schema import Unjudged
from astuner.shared.clients import ContentFailure, LLMBudgetSpent, LLMFailed

NO_ANSWER = "No answer was given."
"""The rationale for an empty answer, which is the worst without asking."""


def explain_failure(error: LLMFailed | LLMBudgetSpent) -> Unjudged:
    """Return `Unjudged` with the reason.

    `llm_budget` for a budget that is spent, `llm_no_verdict` if the judged texts can be why, and `llm_failed` otherwise.
    """
    reason = "llm_no_verdict" if isinstance(error, ContentFailure) else "llm_failed"
    return Unjudged(reason="llm_budget" if isinstance(error, LLMBudgetSpent) else reason, detail=str(error))


def is_due_to_texts(failure: Unjudged) -> bool:
    """Whether the judged texts can be why there is no verdict, so that the other verdicts say nothing about it."""
    return failure.reason == "llm_no_verdict"


def explain_missing_answer(key: str, metadata: Mapping[str, Any], *, option: str) -> Unjudged:
    """Return `Unjudged` for an output without that key, which says nothing about the answer; `option` names the key."""
    there = ", ".join(metadata) or "nothing"
    told = f"the output of the workflow has no metadata['{key}'] (there is: {there}); put the answer there, or set {option}"
    return Unjudged(reason="no_answer", detail=told)
