"""Which failure of a model call an agent was left with: the reason for the failure of its episode, if it has no other."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, field

from astuner.model.rendering.errors import ApiError

REASONS: Mapping[str, str] = {
    "context_length_exceeded": "context_full",
    "max_steps_exceeded": "max_steps",
    "timeout": "timeout",
    "engine_error": "engine_lost",
}
"""The reason for which an episode fails, by the code of the answer that its agent got."""


@define(eq=False)
class CallFailures:
    """The failures that agents have not recovered from: the answer to a call that was begun after a failure clears it."""

    _failed: dict[str, tuple[str, int]] = field(factory=dict, init=False)
    """The reason of each agent's last failure, and how many calls had begun by then."""

    @property
    def reason(self) -> str | None:
        """The latest reason: `context_full`, `max_steps`, `timeout` or `engine_lost`; None if every agent went on."""
        return next(reversed([reason for reason, _ in self._failed.values()]), None)

    def note_error(self, agent: str, error: ApiError, begun: int) -> None:
        """Note the error that an agent got when `begun` calls of the episode had begun. One without a reason changes nothing."""
        reason = None if error.code is None else REASONS.get(error.code)
        # An engine that refuses a request, with a status below 500, is not lost.
        if reason is not None and not (reason == "engine_lost" and error.status < 500):
            self._failed.pop(agent, None)
            self._failed[agent] = (reason, begun)

    def note_answer(self, agent: str, index: int) -> None:
        """Note that an agent got the answer to the call with this index; one in parallel to the failed one clears nothing."""
        if agent in self._failed and index >= self._failed[agent][1]:
            del self._failed[agent]
