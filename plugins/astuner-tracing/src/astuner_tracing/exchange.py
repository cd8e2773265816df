"""The content of one span: input and output, the kind of work, and the agent."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve, field, frozen

from astuner_tracing.attributes import get_first, get_text, get_tree
from astuner_tracing.messages import ChatMessage, find_last, parse_messages
from astuner_tracing.records import Span

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
    """Input and output of a span."""

    asked: Sequence[ChatMessage]
    said: Sequence[ChatMessage] = field(factory=tuple)

    @property
    def opening(self) -> Sequence[ChatMessage]:
        """The messages up to the user's last one; empty if there is none."""
        last = find_last(self.asked, "user")
        return () if last is None else self.asked[: last + 1]

    @property
    def answer(self) -> str | None:
        """The text of the last answer, unless that is a tool call."""
        last = find_last(self.said, "assistant")
        if last is None or self.said[last].tool_calls:
            return None
        return self.said[last].text.strip() or None


def exchange_of(span: Span) -> Exchange:
    """Read input and output, each from the first place that has it."""
    attributes = span.attributes
    asked = _first_messages((get_tree(attributes, path) for path in _INPUTS), "user") or _read_questions_in_events(span)
    said = _first_messages((get_tree(attributes, path) for path in _OUTPUTS), "assistant") or _read_answers_in_events(span)
    asked = asked or _first_messages((_get_whole(attributes, path) for path in _FUNCTION_INPUTS), "user")
    said = said or _first_messages((_get_whole(attributes, path) for path in _FUNCTION_OUTPUTS), "assistant")
    instructions = parse_messages(get_first(attributes, "gen_ai.system_instructions", "gen_ai.system.instructions"), "system")
    if instructions and not any(message.role == "system" for message in asked):
        asked = [*(evolve(message, role="system") for message in instructions), *asked]
    return Exchange(asked=asked, said=said)


def _first_messages(values: Iterable[Any], role: str) -> list[ChatMessage]:
    return next((found for value in values if value is not None and (found := parse_messages(value, role))), [])


def _get_whole(attributes: Mapping[str, Any], path: str) -> Any:
    value = get_first(attributes, path)
    # The parent of `input.value` does not hold a function's arguments.
    return None if isinstance(value, Mapping) and "value" in value else value


def _read_questions_in_events(span: Span) -> list[ChatMessage]:
    """Read messages from events, as in older conventions: one per event, or all in one."""
    found: list[ChatMessage] = []
    for event in span.events:
        attributes = event["attributes"]
        if event["name"] in _EVENT_ROLES:
            role = _EVENT_ROLES[event["name"]]
            found += parse_messages({"role": role, **attributes}, role)
        elif whole := get_first(attributes, "gen_ai.input.messages", "gen_ai.prompt"):
            found += parse_messages(whole, "user")
    return found


def _read_answers_in_events(span: Span) -> list[ChatMessage]:
    found: list[ChatMessage] = []
    for event in span.events:
        attributes = event["attributes"]
        if event["name"] == _CHOICE:
            found += parse_messages(get_first(attributes, "message") or dict(attributes), "assistant")
        elif whole := get_first(attributes, "gen_ai.output.messages", "gen_ai.completion"):
            found += parse_messages(whole, "assistant")
    return found


def _operation(span: Span) -> str:
    return get_text(span.attributes, "gen_ai.operation.name") or ""


def _kind(span: Span) -> str:
    return (get_text(span.attributes, "openinference.span.kind", "traceloop.span.kind") or "").upper()


def is_agent(span: Span) -> bool:
    """Whether a span belongs to an agent."""
    if _operation(span):
        return _operation(span) == "invoke_agent"
    if _kind(span):
        return _kind(span) == "AGENT"
    return bool(_REPLY.search(get_text(span.attributes, "agentscope.function.name") or span.name))


def is_model(span: Span) -> bool:
    """Whether a span is a model call."""
    operation, kind = _operation(span), _kind(span)
    if operation:
        return operation in ("chat", "text_completion", "generate_content")
    if kind:
        return kind == "LLM"
    return any(get_tree(span.attributes, path) is not None for path in _INPUTS)


def list_tools(spans: Iterable[Span]) -> tuple[str, ...]:
    """Return the names of the tools that were called, in order, without repetition."""
    called: dict[str, None] = {}
    for span in spans:
        if _operation(span) == "execute_tool" or _kind(span) == "TOOL":
            called[get_text(span.attributes, "gen_ai.tool.name", "tool.name") or span.name] = None
        else:
            for message in _first_messages((get_tree(span.attributes, path) for path in _OUTPUTS), "assistant"):
                called.update((call["name"], None) for call in message.tool_calls if call["name"])
    return tuple(called)


def find_agent_name(span: Span) -> str | None:
    """Return the name of the span's agent."""
    named = get_text(span.attributes, "gen_ai.agent.name", "agent.name")
    return named or (span.name.partition(".")[0] if is_agent(span) else None)


def find_model_name(span: Span) -> str | None:
    """Return the name of the called model."""
    return get_text(span.attributes, "gen_ai.request.model", "llm.model_name", "gen_ai.response.model")


def find_conversation_id(span: Span) -> str | None:
    """Return the id of a span's conversation."""
    return get_text(span.attributes, "gen_ai.conversation.id", "session.id", "conversation.id")
