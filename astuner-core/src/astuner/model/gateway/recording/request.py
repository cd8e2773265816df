"""An agent's request, independent of the API."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from attrs import evolve, field, frozen

from astuner.contract.schema import Message

if TYPE_CHECKING:
    from astuner.model.gateway.api_keys import Caller


@frozen(kw_only=True, eq=False)
class ChatRequest:
    """One request of an agent."""

    messages: tuple[Message, ...]
    continues: bool = False
    """Whether the last message is the beginning of the answer, which the model continues."""
    target_tag: str | None = None
    """The target that the request names by its model, `SERVED@TAG`; None for that of its key."""
    prompts: tuple[str | tuple[int, ...], ...] = ()
    """Texts or token ids to continue verbatim, instead of messages; each has its own choices."""
    previous: str | None = None
    """The id, without its prefix, of the response of this episode that the messages continue."""
    preamble: int | None = None
    """Number of first messages that belong to this request alone and are not repeated when a later request continues its
    response by `previous`; None in APIs without `previous`."""
    tools: tuple[Mapping[str, Any], ...] = ()
    found_tools: tuple[Mapping[str, Any], ...] = ()
    """Tools that the messages describe: they can be called too, and the prompt does not list them again."""
    tool_forms: Mapping[str, Any] = field(factory=dict)
    """What the tools are in an API that has more than functions, by the names that the model sees."""
    hosted_tools: tuple[str, ...] = ()
    """Types of tools that were left out, since the servers of the API would run them."""
    calls_tools: bool = False
    """Whether tool calls are read out of the answer."""
    parallel_tool_calls: bool = True
    constraint: Mapping[str, Any] | None = None
    """The requested grammar, by `type`: `json_object`, `json_schema` (`schema`), `tool_call` (`tools`)."""
    n: int = 1
    """Choices; per prompt, if there are prompts."""
    stop: tuple[str, ...] = ()
    seed: int | None = None
    logprobs: bool = False
    top_logprobs: int = 0
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stream: bool = False
    include_usage: bool = False
    template_kwargs: Mapping[str, Any]
    """Extra variables of the chat template, as in `chat_template_kwargs: {enable_thinking: false}`."""
    ignored: tuple[str, ...] = ()
    """Sent fields that would matter but have no effect."""
    body: Mapping[str, Any]
    """The same as a body of `/v1/chat/completions`, for engines that speak that API themselves."""
    sent: Mapping[str, Any] = field(factory=dict)
    """The body as the client sent it, for APIs that repeat it."""

    @property
    def choices(self) -> int:
        """Choices of all prompts."""
        return self.n * max(1, len(self.prompts))

    @property
    def callable_tools(self) -> tuple[Mapping[str, Any], ...]:
        """The tools whose calls are read out of the answer."""
        return (*self.tools, *self.found_tools) if self.calls_tools else ()

    def with_earlier(self, earlier: Sequence[Message]) -> ChatRequest:
        """Return the request with the earlier messages inserted."""
        own = self.preamble or 0
        return self.with_messages((*self.messages[:own], *earlier, *self.messages[own:]))

    def with_messages(self, messages: tuple[Message, ...]) -> ChatRequest:
        """Return the request with other messages."""
        return evolve(self, messages=messages, body={**self.body, "messages": list(messages)})

    def without_tools(self) -> ChatRequest:
        """Return the request without its tools."""
        body = {key: value for key, value in self.body.items() if key not in ("tools", "tool_choice", "parallel_tool_calls")}
        asks_for_tool = self.constraint is not None and self.constraint["type"] == "tool_call"
        return evolve(
            self, tools=(), found_tools=(), calls_tools=False, constraint=None if asks_for_tool else self.constraint, body=body
        )

    def make_root_digest(self, agent: str) -> bytes:
        """Return the digest that separates conversations which cannot share a stream."""
        key = json.dumps([agent, self.tools, self.template_kwargs], separators=(",", ":"), default=str)
        return blake2b(key.encode(), digest_size=16).digest()


@frozen(eq=False)
class AcceptedRequest:
    """A request with the messages that it continues, and without what is not served."""

    request: ChatRequest
    caller: Caller
    trained: bool
    """Whether the caller's targets are trained."""
