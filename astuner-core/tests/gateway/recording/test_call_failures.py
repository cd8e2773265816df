"""Which failure of a model call an agent has not recovered from."""

from __future__ import annotations

import pytest

from astuner.model.gateway.recording.call_ledger import CallFailures
from astuner.model.rendering.errors import ApiError, context_full


@pytest.fixture
def failures() -> CallFailures:
    """Return those of an agent whose context was full when two of its calls were under way."""
    made = CallFailures()
    made.note_error("agent", context_full(10, 5), begun=2)
    return made


def test_an_answer_after_a_failure_clears_it(failures: CallFailures) -> None:
    failures.note_answer("agent", index=2)
    assert failures.reason is None


def test_an_answer_that_was_asked_for_before_the_failure_leaves_it(failures: CallFailures) -> None:
    failures.note_answer("agent", index=1)
    assert failures.reason == "context_full"


def test_an_answer_of_another_agent_leaves_it(failures: CallFailures) -> None:
    failures.note_answer("other", index=9)
    assert failures.reason == "context_full"


@pytest.mark.parametrize(
    "error",
    [
        ApiError(503, "The call was cancelled.", code="aborted", retry=False),
        ApiError(400, "bad", code="invalid_request_error"),
        ApiError(422, "refused", code="engine_error"),
    ],
    ids=["aborted", "bad request", "refused by the engine"],
)
def test_an_error_that_is_no_reason_leaves_it(failures: CallFailures, error: ApiError) -> None:
    failures.note_error("agent", error, begun=9)
    assert failures.reason == "context_full"


def test_the_latest_failure_counts(failures: CallFailures) -> None:
    failures.note_error("other", ApiError(504, "late", code="timeout"), begun=3)
    failures.note_error("agent", ApiError(503, "lost", code="engine_error"), begun=3)
    assert failures.reason == "engine_lost"
