"""A chat template tried once on a few conversations, to learn what it shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from astuner.model.reasoning import THINKING
from astuner.model.rendering.template_shape import TemplateShape

PROBE = "qzprobe"
"""A word that no template contains."""
ANSWER = "qzanswer"
"""Another one."""

USER: Mapping[str, Any] = {"role": "user", "content": "x"}


class Apply(Protocol):
    """Renders messages; may raise anything to refuse them."""

    def __call__(
        self, messages: Sequence[Mapping[str, Any]], *, tools: Sequence[Mapping[str, Any]] = (), generate: bool = False
    ) -> str:
        """Return the text of a conversation."""


def find_shape(apply: Apply) -> TemplateShape:
    """Try a template on a few conversations."""
    found = _Probes(apply)
    ids = ("123456789", f"functions.{PROBE}:0")
    attempts = [_call(PROBE, id_, arguments) for id_ in ids for arguments in ({"q": "v"}, '{"q": "v"}')]
    tried, called = next(((attempt, text) for attempt in attempts if (text := found.render_calls(attempt))), (attempts[0], ""))
    inline = not called
    arguments = tried["function"]["arguments"]
    named_ids = tried["id"] != ids[0] or f"functions.{PROBE}:" in called
    first, second = ("functions.x:0", f"functions.{PROBE}:1") if named_ids else ("123456789", "123456780")
    call = _call("x", first, arguments)
    assistant = _say("x") if inline else {**_say(""), "tool_calls": [call]}
    result = {**_result(first), "content": PROBE}
    tools_as_user = not any(PROBE in found.render(USER, assistant, result, *after) for after in ((), (_say("x"),)))
    return TemplateShape(
        inline_calls=inline,
        text_arguments=isinstance(arguments, str),
        tools_as_user=tools_as_user,
        named_ids=named_ids,
        short_ids=not inline and not named_ids and not found.render_calls(_call(PROBE, "call_0123456789", arguments)),
        many_calls=inline or bool(found.render_calls(call, _call(PROBE, second, arguments))),
        shows_tools=PROBE in found.render(USER, tools=[_offer(PROBE)]),
        # Some templates show it beside the last question only, so not in a conversation that ends with a tool result.
        shows_system=PROBE in found.render(_instruct(PROBE), USER)
        and (inline or tools_as_user or not found.render(USER, assistant, result) or found.keep_system(assistant, result)),
        many_systems=found.show_in_order(_instruct(ANSWER), _instruct(PROBE), USER),
        late_systems=all(
            found.show_in_order(*begin, USER, _say(ANSWER), _instruct(PROBE), USER) for begin in ((), (_instruct("x"),))
        ),
        user_after_user=found.show_in_order({**USER, "content": ANSWER}, {**USER, "content": PROBE}),
        user_after_result=tools_as_user
        or found.show_in_order(USER, assistant, {**_result(first), "content": ANSWER}, {**USER, "content": PROBE}),
        shows_names=PROBE in found.render({**USER, "name": PROBE}),
        knows_reasoning=found.know_reasoning({**assistant, "reasoning_content": PROBE}, _result(first)),
        called=called,
        call_example="" if inline else found.cut_call({**_say(""), "tool_calls": [tried]}),
    )


class _Probes:
    """A template that renders what is tried, or nothing."""

    def __init__(self, apply: Apply) -> None:
        self._apply = apply

    def render(self, *messages: Mapping[str, Any], tools: Sequence[Mapping[str, Any]] = (), generate: bool = False) -> str:
        try:
            return self._apply(messages, tools=tools, generate=generate)
        except Exception:  # noqa: BLE001 - the template does not support what is tried here
            return ""

    def show_in_order(self, *messages: Mapping[str, Any]) -> bool:
        """Whether a conversation is shown with ANSWER before PROBE."""
        before, answer, after = self.render(*messages).partition(ANSWER)
        return bool(answer) and PROBE in after and PROBE not in before

    def render_calls(self, *calls: Mapping[str, Any]) -> str:
        """Return the first conversation that shows tool calls of one message, of several forms; an exception refuses one form."""
        message = {**_say(""), "tool_calls": list(calls)}
        results = tuple(_result(call["id"]) for call in calls)
        for after in ((*results, USER), results, (*results, _say("x"), USER), (*results, _say("x")), ()):
            for before in ((), (_instruct("x"),)):
                for tools in ((), [_offer("x")]):
                    text = self.render(*before, USER, message, *after, tools=tools)
                    if PROBE in text:
                        return text
        return ""

    def keep_system(self, *messages: Mapping[str, Any]) -> bool:
        """Whether a system message is shown in a conversation that goes on, unless that is refused."""
        text = self.render(_instruct(ANSWER), USER, *messages)
        return not text or ANSWER in text

    def cut_call(self, message: Mapping[str, Any]) -> str:
        """Return how a message with a call differs from one with a text in its place."""
        before, _, after = self.render(USER, _say(PROBE)).partition(PROBE)
        text = self.render(USER, message)
        whole = bool(before) and text.startswith(before) and text.endswith(after)
        return text[len(before) : len(text) - len(after)] if whole else ""

    def know_reasoning(self, message: Mapping[str, Any], result: Mapping[str, Any]) -> bool:
        """Whether the template shows the reasoning of a message, opens reasoning in a header, or strips it from old answers."""
        if PROBE in self.render(USER, {**_say("x"), "reasoning_content": PROBE}) or PROBE in self.render(USER, message, result):
            return True
        header = self.render(USER, generate=True)
        for start, end in THINKING:
            old = self.render(USER, _say(f"{start}\n{PROBE}\n{end}\n\n{ANSWER}"), USER)
            if start in header or end in header or (ANSWER in old and PROBE not in old):
                return True
        return False


def _instruct(content: str) -> dict[str, Any]:
    return {"role": "system", "content": content}


def _say(content: str) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


def _call(name: str, id_: str, arguments: Any) -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


def _result(id_: str) -> dict[str, Any]:
    return {"role": "tool", "content": "x", "tool_call_id": id_, "name": "x"}


def _offer(name: str) -> dict[str, Any]:
    function = {"name": name, "description": "x", "parameters": {"type": "object", "properties": {"q": {"type": "string"}}}}
    return {"type": "function", "function": function}
