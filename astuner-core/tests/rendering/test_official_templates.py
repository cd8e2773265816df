"""Rendering through official templates: equal to `apply_chat_template` in text and ids, or more where that loses something."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from official_templates import FAMILIES, official_renderer

from astuner.model.gateway.recording.messages import normalise
from astuner.model.rendering.errors import ApiError

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": 'Weather of a "city" – é <b>',
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "description": "name"}, "unit": {"type": "string", "enum": ["c", "f"]}},
            "required": ["city"],
        },
    },
}
ADD = {
    "type": "function",
    "function": {
        "name": "add_up",
        "description": "Adds",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "number"}, "b": {"type": "array", "items": {"type": "string"}}},
            "required": ["a", "b"],
        },
    },
}


def call(number: int, name: str, arguments: str) -> dict[str, Any]:
    return {"id": f"{number:09d}", "type": "function", "function": {"name": name, "arguments": arguments}}


def result(number: int, content: str, **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"{number:09d}", "content": content, **more}


SYSTEM = {"role": "system", "content": "You are  helpful.\n"}
USER = {"role": "user", "content": "Hi é 中文 \n there "}
ANSWER = {"role": "assistant", "content": "Hello."}
CALL = {"role": "assistant", "content": "", "tool_calls": [call(1, "get_weather", '{"city": "Zürich", "unit": "c"}')]}
TWO_CALLS = {**CALL, "tool_calls": [*CALL["tool_calls"], call(2, "add_up", '{"a": 1.5, "b": ["x", "y\\"z"]}')]}
RESULT = result(1, "sunny & <hot>", name="get_weather")
OTHER_RESULT = result(2, '{"r": 2}', name="add_up")
THOUGHT = {**ANSWER, "reasoning_content": "I think\nso"}
THOUGHT_CALL = {**CALL, "reasoning_content": "need weather"}

PLAIN: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "user": [USER],
    "system": [SYSTEM, USER],
    "turns": [SYSTEM, USER, ANSWER, USER],
    "many turns": [SYSTEM, *[USER, ANSWER] * 6, USER],
    "two users": [USER, USER],
    "answer last": [USER, ANSWER],
    "system in the middle": [USER, ANSWER, SYSTEM, USER],
    "names": [{**USER, "name": "ann"}, {**ANSWER, "name": "friday"}, {**USER, "name": "bob"}],
    "parts": [{"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]}],
    "reasoning": [USER, THOUGHT, USER],
    "reasoning in the text": [USER, {**ANSWER, "content": "<think>\ninline\n</think>\n\nHello."}, USER],
}
WITH_TOOLS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "tools": [SYSTEM, USER],
    "tools without system": [USER],
    "call": [SYSTEM, USER, CALL, RESULT],
    "call with null content": [USER, {**CALL, "content": None}, RESULT],
    "call next to a text": [SYSTEM, USER, {**CALL, "content": "Let me look."}, RESULT],
    "result without a name": [SYSTEM, USER, CALL, result(1, "sunny & <hot>")],
    "call and answer": [SYSTEM, USER, CALL, RESULT, ANSWER, USER],
    "empty arguments": [USER, {**CALL, "tool_calls": [call(1, "get_weather", "{}")]}, RESULT],
    "parallel calls": [SYSTEM, USER, TWO_CALLS, RESULT, OTHER_RESULT],
    "parallel calls and answer": [SYSTEM, USER, TWO_CALLS, RESULT, OTHER_RESULT, ANSWER, USER],
    "reasoning and call": [SYSTEM, USER, THOUGHT_CALL, RESULT],
    "reasoning and two rounds": [SYSTEM, USER, THOUGHT_CALL, RESULT, THOUGHT_CALL, RESULT],
    "reasoning, call and answer": [SYSTEM, USER, THOUGHT_CALL, RESULT, THOUGHT, USER],
}
CONVERSATIONS = {**PLAIN, **WITH_TOOLS}


def for_transformers(messages: Sequence[Mapping[str, Any]], text_arguments: bool) -> list[dict[str, Any]]:
    """Messages as the official template takes them: arguments as its family writes them, parts as one text.

    With text arguments, null is an empty content: transformers leaves a null out, for which DeepSeek's template raises.
    """
    found: list[dict[str, Any]] = json.loads(json.dumps(messages))
    for message in found:
        if text_arguments:
            message["content"] = message["content"] or ""
        if isinstance(message["content"], list):
            message["content"] = "\n".join(part["text"] for part in message["content"])
        for made in () if text_arguments else message.get("tool_calls", ()):
            made["function"]["arguments"] = json.loads(made["function"]["arguments"])
    return found


def count_contents(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> Counter[str]:
    """What a model should see, and how often."""
    texts = [message["content"].rpartition("</think>")[2].strip() for message in messages if isinstance(message["content"], str)]
    calls = [made["function"]["name"] for message in messages for made in message.get("tool_calls", ())]
    return Counter([*filter(None, texts), *(tool["function"]["name"] for tool in tools), *calls])


def loses(text: str, contents: Mapping[str, int]) -> bool:
    return any(max(text.count(part), text.count(json.dumps(part)[1:-1])) < times for part, times in contents.items())


def keeps_order(text: str, messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether messages with different contents are shown in their order."""
    places = [text.find(content) for content in dict.fromkeys(message["content"].strip() for message in messages)]
    return places == sorted(places)


def compare(family: str, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], **options: str) -> str:
    """Render a conversation with `apply_chat_template` and with the renderer; return how the two differ."""
    renderer = official_renderer(family, **options)
    given = for_transformers(messages, text_arguments=family.startswith("deepseek"))
    wanted: dict[str, Any] = {"tools": list(tools) or None, "add_generation_prompt": True}
    try:
        expected = renderer.tokenizer.apply_chat_template(given, tokenize=False, **wanted)
    except Exception:  # noqa: BLE001 - a template raises what it likes
        expected = None
    try:
        text = renderer.render(normalise([dict(message) for message in messages]), tools, generate=True, kwargs={})
    except ApiError:
        return "both refuse" if expected is None else "refused"
    if text == expected:
        ids = renderer.tokenizer.apply_chat_template(given, tokenize=True, return_dict=False, **wanted)
        assert renderer.encode(text).tolist() == list(ids)
        return "equal"
    contents = count_contents(messages, tools)
    if (expected is None or loses(expected, contents)) and not loses(text, contents):
        return "shows more"
    if not loses(text, contents) and keeps_order(text, messages) and not keeps_order(expected, messages):
        return "keeps the order"
    return f"differs:\n{text}\n{expected}"


def compare_all(family: str, **options: str) -> dict[str, str]:
    return {
        name: compare(family, messages, [WEATHER, ADD] if name in WITH_TOOLS else [], **options)
        for name, messages in CONVERSATIONS.items()
    }


NO_TOOLS = dict.fromkeys(WITH_TOOLS, "shows more")
"""The template ignores `tools`, and most of these drop calls and results, or raise."""
CALLS = [name for name in WITH_TOOLS if name not in ("tools", "tools without system")]
LATE_SYSTEM = {"system in the middle": "shows more"}
MOVED_SYSTEM = {"system in the middle": "keeps the order"}
PARALLEL = ("parallel calls", "parallel calls and answer")

EXCEPTIONS: Mapping[str, Mapping[str, str]] = {
    "qwen3_5_think": LATE_SYSTEM,
    "qwen3_5_nothink": LATE_SYSTEM,
    "qwen3_6": LATE_SYSTEM,
    "llama3": NO_TOOLS,
    # The template raises for more than one call in a message.
    "llama3_1": dict.fromkeys(PARALLEL, "both refuse"),
    "llama3_2": dict.fromkeys(PARALLEL, "both refuse"),
    # Roles must alternate; the template raises for a system message.
    "gemma": {**NO_TOOLS, **LATE_SYSTEM} | dict.fromkeys(("system", "turns", "many turns", "two users"), "shows more"),
    "gemma3": {**NO_TOOLS, **LATE_SYSTEM, "two users": "shows more"},
    "phi3": NO_TOOLS,
    "phi3_5": NO_TOOLS,
    # The template drops the second call, and a system message that is not the first.
    "gptoss": {**LATE_SYSTEM, **dict.fromkeys(PARALLEL, "refused")},
    # The tools alone: calls and results are equal, see below.
    "deepseekv3": {**NO_TOOLS, **MOVED_SYSTEM},
    "deepseek_r1_distill": {**NO_TOOLS, **MOVED_SYSTEM},
    "cohere": {**NO_TOOLS, **LATE_SYSTEM, "two users": "shows more"},
    "cohere2": {**NO_TOOLS, **MOVED_SYSTEM, "two users": "shows more"},
    # The template shows tools and results, but no calls.
    "lfm2": dict.fromkeys(CALLS, "shows more"),
}
"""Conversations that are not rendered as `apply_chat_template` does. `both refuse`: the template raises, and the client
gets a 400. `refused`: the template would drop a part in silence, and the client gets a 400 instead. `shows more`: the
template raises or drops a part, and the renderer shows it in another place or role. `keeps the order`: the template would
move a system message to the front, which changes what earlier calls were sampled from."""


@pytest.mark.parametrize("family", FAMILIES)
def test_text_and_ids_are_those_of_apply_chat_template(family: str) -> None:
    assert {**dict.fromkeys(CONVERSATIONS, "equal"), **EXCEPTIONS.get(family, {})} == compare_all(family)


def test_calls_of_deepseek_are_rendered_as_apply_chat_template_does() -> None:
    options = {"tools_in_prompt": "template", "late_system_messages": "template"}
    assert dict.fromkeys(CONVERSATIONS, "equal") == compare_all("deepseekv3", **options)


TEXTS = st.text(st.sampled_from('ab é中🙂 \n\t"\\<>{}|_/'), max_size=12).map(lambda text: f"x{text}x")
"""Between two letters: templates strip what is at the ends, each in its own places."""
OBJECTS = st.dictionaries(TEXTS, st.one_of(TEXTS, st.integers(), st.booleans(), st.lists(TEXTS, max_size=2)), max_size=3)


@st.composite
def conversations(draw: st.DrawFn) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"role": "system", "content": draw(TEXTS)}] if draw(st.booleans()) else []
    for turn in range(draw(st.integers(1, 3))):
        found.append({"role": "user", "content": draw(TEXTS)})
        for step in range(draw(st.integers(0, 2))):
            number = 10 * turn + step
            made = [call(number, draw(st.sampled_from(["get_weather", "add_up"])), json.dumps(draw(OBJECTS)))]
            found.append({"role": "assistant", "content": "", "tool_calls": made})
            found.append(result(number, draw(TEXTS), name=made[0]["function"]["name"]))
        found.append({"role": "assistant", "content": draw(TEXTS)})
    return [*found, {"role": "user", "content": draw(TEXTS)}]


@pytest.mark.parametrize("family", [family for family in FAMILIES if "call" not in EXCEPTIONS.get(family, {})])
@settings(max_examples=25, deadline=None)
@given(messages=conversations())
def test_any_conversation_is_rendered_as_apply_chat_template_does(family: str, messages: list[dict[str, Any]]) -> None:
    assert compare(family, messages, [WEATHER, ADD]) == "equal"
