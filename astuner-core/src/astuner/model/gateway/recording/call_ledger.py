"""What an episode has recorded: its calls, notices for the user, and the failures that its agents were left with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from attrs import define, field

from astuner.model.gateway.recording.named_responses import Conversations
from astuner.model.rendering.errors import ApiError

if TYPE_CHECKING:
    from astuner.contract.schema import Call, Message
    from astuner.model.gateway.api_keys import Caller
    from astuner.model.gateway.recording.running_call import FinishedCall


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


@define(eq=False)
class CallLedger:
    """The records of one episode. Calls are numbered as they begin."""

    failures: CallFailures = field(factory=CallFailures, init=False)
    notices: list[str] = field(factory=list, init=False)
    conversations: Conversations = field(factory=Conversations, init=False)
    begun: int = field(default=0, init=False)
    """The number of calls that have begun."""
    ended_by: str | None = field(default=None, init=False)
    """What was found in an answer that ends the episode."""
    trained_calls: Counter[str] = field(factory=Counter, init=False)
    """The trained calls that each agent has begun."""
    _finished: dict[int, Call] = field(factory=dict, init=False)

    @property
    def calls(self) -> tuple[Call, ...]:
        """The finished calls, by index."""
        return tuple(self._finished[index] for index in sorted(self._finished))

    def number_call(self) -> int:
        """Return the index of a call that begins."""
        self.begun += 1
        return self.begun - 1

    def notice(self, text: str) -> None:
        """Add a notice, once."""
        if text not in self.notices:
            self.notices.append(text)

    def name_response(self, response: str, preamble: int | None) -> None:
        """Let later requests name the response whose first call begins next; None in an API without names."""
        if preamble is not None:
            self.conversations.name_response(response, self.begun, preamble)

    def collect_earlier(self, response: str) -> tuple[Message, ...]:
        """Return the conversation up to and including a response; raises ApiError if there is no such response."""
        return self.conversations.collect_until(response, self._finished)

    def note_error(self, caller: Caller, error: ApiError) -> None:
        """Note the error that a caller gets."""
        self.failures.note_error(caller.name, error, self.begun)

    def finish(self, caller: Caller, done: FinishedCall) -> None:
        """Record a call."""
        self._finished[done.call.index] = done.call
        if done.error is None:
            self.failures.note_answer(caller.name, done.call.index)
        else:
            self.note_error(caller, done.error)
        if done.dropped:
            why = "'parallel_tool_calls' is false, or the model's chat template shows only one"
            self.notice(f"{caller.name}: only the first of several tool calls was returned: {why}.")
