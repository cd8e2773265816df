"""Short names, for counting, of why an LLM gave no answer."""

from __future__ import annotations

from astuner.shared.clients import AnswerRefused, LLMFailed


def classify_failure(error: LLMFailed) -> str:
    """Return the reason of a failure in one word."""
    cause = error.__cause__
    status = getattr(cause, "status_code", None)
    if isinstance(cause, TimeoutError):
        return "timeout"
    if status == 429:
        return "rate_limited"
    if status is not None:
        return f"status_{status}"
    if isinstance(cause, ValueError):
        return "not_json"
    if isinstance(cause, ImportError):
        return "not_installed"
    if cause is not None:
        return "unreachable"
    return "refused" if isinstance(error, AnswerRefused) else "no_text"
