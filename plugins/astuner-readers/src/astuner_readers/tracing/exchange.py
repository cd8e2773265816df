"""What one span says: what went in and came out, what kind of work it was, and whose."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve, field, frozen

from astuner_readers.tracing.attributes import first_at, text_at, tree_at
from astuner_readers.tracing.messages import Said, last_of, messages_of
from astuner_readers.tracing.records import Span

_INPUTS = ("gen_ai.input.messages", "llm.input_messages", "gen_ai.prompt")
_OUTPUTS = ("gen_ai.output.messages", "llm.output_messages", "gen_ai.completion")
_FUNCTION_INPUTS = ("agentscope.function.input", "input.value", "input")
_FUNCTION_OUTPUTS = ("agentscope.function.output", "output.value", "output")
_REPLY = re.compile(r"\w*Agent\w*\.(reply|__call__)$|\.reply$")
_EVENT_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
_CHOICE = "gen_ai.choice"


@frozen(kw_only=True)
class Exchange:
    """What went into a span, and what came out."""

    asked: Sequence[Said]
    said: Sequence[Said] = field(factory=tuple)

    @property
    def opening(self) -> Sequence[Said]:
        """The messages up to the last of the user; none where there is none."""
        last = last_of(self.asked, "user")
        return () if last is None else self.asked[: last + 1]

    @property
    def answer(self) -> str | None:
        """The text of the last answer, if that is not a call of a tool."""
        last = last_of(self.said, "assistant")
        if last is None or self.said[last].tool_calls:
            return None
        return self.said[last].text.strip() or None


def exchange_of(span: Span) -> Exchange:
    """Read what went in and came out, from the first place that says it."""
    attributes = span.attributes
    asked = _first_messages((tree_at(attributes, path) for path in _INPUTS), "user") or _asked_in_events(span)
    said = _first_messages((tree_at(attributes, path) for path in _OUTPUTS), "assistant") or _said_in_events(span)
    asked = asked or _first_messages((_whole(attributes, path) for path in _FUNCTION_INPUTS), "user")
    said = said or _first_messages((_whole(attributes, path) for path in _FUNCTION_OUTPUTS), "assistant")
    instructions = messages_of(first_at(attributes, "gen_ai.system_instructions", "gen_ai.system.instructions"), "system")
    if instructions and not any(message.role == "system" for message in asked):
        asked = [*(evolve(message, role="system") for message in instructions), *asked]
    return Exchange(asked=asked, said=said)


def _first_messages(values: Iterable[Any], role: str) -> list[Said]:
    return next((found for value in values if value is not None and (found := messages_of(value, role))), [])


def _whole(attributes: Mapping[str, Any], path: str) -> Any:
    value = first_at(attributes, path)
    # `input` above `input.value` is no object of a function's arguments.
    return None if isinstance(value, Mapping) and "value" in value else value


def _asked_in_events(span: Span) -> list[Said]:
    """Read the messages that older conventions put into events: one each, or all of them in one."""
    found: list[Said] = []
    for event in span.events:
        attributes = event["attributes"]
        if event["name"] in _EVENT_ROLES:
            role = _EVENT_ROLES[event["name"]]
            found += messages_of({"role": role, **attributes}, role)
        elif whole := first_at(attributes, "gen_ai.input.messages", "gen_ai.prompt"):
            found += messages_of(whole, "user")
    return found


def _said_in_events(span: Span) -> list[Said]:
    found: list[Said] = []
    for event in span.events:
        attributes = event["attributes"]
        if event["name"] == _CHOICE:
            found += messages_of(first_at(attributes, "message") or dict(attributes), "assistant")
        elif whole := first_at(attributes, "gen_ai.output.messages", "gen_ai.completion"):
            found += messages_of(whole, "assistant")
    return found


def _operation(span: Span) -> str:
    return text_at(span.attributes, "gen_ai.operation.name") or ""


def _kind(span: Span) -> str:
    return (text_at(span.attributes, "openinference.span.kind", "traceloop.span.kind") or "").upper()


def is_agent(span: Span) -> bool:
    """Whether a span is the work of an agent."""
    if _operation(span):
        return _operation(span) == "invoke_agent"
    if _kind(span):
        return _kind(span) == "AGENT"
    return bool(_REPLY.search(text_at(span.attributes, "agentscope.function.name") or span.name))


def is_model(span: Span) -> bool:
    """Whether a span is a call of a model."""
    operation, kind = _operation(span), _kind(span)
    if operation:
        return operation in ("chat", "text_completion", "generate_content")
    if kind:
        return kind == "LLM"
    return any(tree_at(span.attributes, path) is not None for path in _INPUTS)


def tools_of(spans: Iterable[Span]) -> tuple[str, ...]:
    """Return the names of the tools that were called, in order, each once."""
    called: dict[str, None] = {}
    for span in spans:
        if _operation(span) == "execute_tool" or _kind(span) == "TOOL":
            called[text_at(span.attributes, "gen_ai.tool.name", "tool.name") or span.name] = None
        else:
            for message in _first_messages((tree_at(span.attributes, path) for path in _OUTPUTS), "assistant"):
                called.update((call["name"], None) for call in message.tool_calls if call["name"])
    return tuple(called)


def agent_name(span: Span) -> str | None:
    """Return the name of the agent whose span it is."""
    named = text_at(span.attributes, "gen_ai.agent.name", "agent.name")
    return named or (span.name.partition(".")[0] if is_agent(span) else None)


def model_name(span: Span) -> str | None:
    """Return the name of the model that was called."""
    return text_at(span.attributes, "gen_ai.request.model", "llm.model_name", "gen_ai.response.model")


def conversation_of(span: Span) -> str | None:
    """Return the id of the conversation that a span is of."""
    return text_at(span.attributes, "gen_ai.conversation.id", "session.id", "conversation.id")
