"""What the outline of a large body refuses, all of it would be refused for: no bound exceeds the tokens of the prompt."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from official_templates import FAMILIES, official_renderer

from astuner.model.gateway.dialects.anthropic_request import messages_request
from astuner.model.gateway.dialects.chat_completions import chat_request
from astuner.model.gateway.dialects.completions import completion_request
from astuner.model.gateway.dialects.large_bodies import LargeBody
from astuner.model.gateway.dialects.outlines import FIRST_PIECE, LARGEST_PIECE, LONGEST_KEPT, Measures, OutlineDecoder
from astuner.model.gateway.dialects.responses_request import responses_request
from astuner.model.gateway.recording.request import ChatRequest
from astuner.model.rendering import TemplateRenderer
from astuner.model.rendering.errors import ApiError
from astuner_devkit.tokenizer import tiny_tokenizer

ASK = {"role": "user", "content": "x"}
GRAMMAR = {"type": "grammar", "syntax": "lark"}
SAMPLES = st.sampled_from(
    ["a", "word ", "\n", " ", "\u2003", '"', "\\", "\x01", "é", "e\u0301", "中文", "🙂", "<|im_end|>", "[INST]"]
)
TEXTS = st.builds(lambda words, times: "".join(words) * times, st.lists(SAMPLES, max_size=6), st.sampled_from([1, 2, 90, 400]))
ROLES = st.sampled_from(["user", "assistant", "system", "tool"])


@st.composite
def said(draw: Callable[[Any], Any]) -> dict[str, Any]:
    role, text = draw(ROLES), draw(TEXTS)
    message: dict[str, Any] = {"role": role, "content": text}
    if role == "user" and draw(st.booleans()):
        message["content"] = [{"type": "text", "text": part} for part in [text, draw(TEXTS)]]
    if role == "assistant" and draw(st.booleans()):
        message["reasoning_content"] = draw(TEXTS)
    elif role == "assistant" and draw(st.booleans()):
        message["content"] = f"<think>\n{text}\n</think>\n\nx"
    return message | ({"tool_call_id": "x"} if role == "tool" else {})


CONVERSATIONS = st.lists(said(), min_size=1, max_size=5) | st.builds(
    lambda message, times: [message, {"role": "assistant", "content": "x"}] * times, said(), st.integers(1, 40)
)
TOOLS = st.lists(TEXTS.map(lambda text: {"type": "function", "function": {"name": "f", "description": text}}), max_size=2)


def count_by_outline(renderer: TemplateRenderer, read: Any, raw: bytes, most_items: int) -> int:
    bound = renderer.prompt_bound
    assert bound is not None
    outline = LargeBody.take(raw).outline(bound.text.count_bytes, most_items)
    assert outline is not None
    body, measures = outline
    assert len(json.dumps(body)) < 200_000
    request = read(body)
    return bound.count_at_least(request.messages, request.tools, measures.count_bytes)


def count_exactly(renderer: TemplateRenderer, request: ChatRequest) -> int | None:
    """None if such a conversation is refused."""
    try:
        text = renderer.render(request.messages, request.tools, generate=True, kwargs={})
    except ApiError:
        return None
    return len(renderer.encode(text))


@pytest.mark.parametrize("name", [*FAMILIES])
@settings(max_examples=25)
@given(messages=CONVERSATIONS, tools=TOOLS, ascii_only=st.booleans(), most_items=st.integers(1, 60))
@example(messages=[{"role": "user", "content": ""}] * 50, tools=[], ascii_only=True, most_items=60)
@example(messages=[{"role": "user", "content": " " * 5000}], tools=[], ascii_only=True, most_items=60)
@example(
    messages=[ASK, {"role": "assistant", "content": f"<think>{'a' * 9000}</think>x"}, ASK],
    tools=[],
    ascii_only=True,
    most_items=9,
)
@example(
    messages=[{"role": "system", "content": ""}, {"role": "system", "content": ""}],
    tools=[{"type": "function", "function": {"name": "f", "description": "word " * 400}}],
    ascii_only=True,
    most_items=9,
)
@example(
    messages=[ASK, {"role": "assistant", "content": "x"}, {"role": "system", "content": ""}],
    tools=[{"type": "function", "function": {"name": "f", "description": "word " * 400}}],
    ascii_only=True,
    most_items=9,
)
def test_no_outline_counts_more_tokens_than_the_prompt_has(
    name: str, messages: list[Any], tools: list[Any], ascii_only: bool, most_items: int
) -> None:
    renderer = official_renderer(name)
    given_body = {"messages": messages, "tools": tools, "metadata": {"x": "y" * 9000}}
    exact = count_exactly(renderer, chat_request(given_body))
    if exact is not None:
        raw = json.dumps(given_body, ensure_ascii=ascii_only).encode()
        assert count_by_outline(renderer, chat_request, raw, most_items) <= exact


def as_responses(messages: list[Any]) -> Mapping[str, Any]:
    items: list[Any] = []
    for said in messages:
        if said["role"] != "tool":
            items.append({"role": said["role"], "content": said["content"]})
            continue
        text = said["content"]
        tool = {"type": "custom", "name": "f", "description": text, "format": {**GRAMMAR, "definition": text}}
        items += [
            {"type": "custom_tool_call", "call_id": "1", "name": "f", "input": text},
            {"type": "custom_tool_call_output", "call_id": "1", "output": [{"type": "input_text", "text": text}] * 2},
            {"type": "tool_search_call", "call_id": "2", "arguments": {"query": text}},
            {"type": "tool_search_output", "call_id": "2", "tools": [{"type": "namespace", "name": "n", "tools": [tool] * 2}]},
            {"type": "shell_call", "call_id": "3", "action": {"commands": [text] * 2}},
            {"type": "shell_call_output", "call_id": "3", "output": [{"stdout": text, "stderr": text}] * 2},
            {"type": "additional_tools", "tools": [tool]},
        ]
    first = messages[0]["content"]
    return {"input": items or "x", "instructions": first if isinstance(first, str) else "x"}


def as_anthropic(messages: list[Any]) -> Mapping[str, Any]:
    turns = [{"role": said["role"], "content": said["content"]} for said in messages if said["role"] in ("user", "assistant")]
    return {"messages": turns or [{"role": "user", "content": "x"}], "max_tokens": 9}


@pytest.mark.parametrize(("read", "convert"), [(responses_request, as_responses), (messages_request, as_anthropic)])
@given(messages=CONVERSATIONS, most_items=st.integers(1, 60))
def test_in_no_other_api_either(
    renderer: TemplateRenderer, read: Any, convert: Any, messages: list[Any], most_items: int
) -> None:
    body = convert(messages)
    try:
        exact = count_exactly(renderer, read(body))
        counted = count_by_outline(renderer, read, json.dumps(body).encode(), most_items)
    except ApiError:
        return
    assert exact is None or counted <= exact


@given(prompt=TEXTS.filter(bool))
def test_nor_more_than_a_raw_prompt_has(renderer: TemplateRenderer, prompt: str) -> None:
    assert renderer.length_bound
    outline = LargeBody.take(json.dumps({"prompt": prompt}).encode()).outline(renderer.length_bound.count_bytes, 10)
    assert outline
    counted = renderer.length_bound.count_tokens(outline[1].count_bytes(completion_request(outline[0]).prompts[0]))  # type: ignore[arg-type]
    assert counted <= len(renderer.encode(prompt))


@pytest.mark.parametrize("name", [*FAMILIES])
def test_an_official_template_has_a_bound_on_tiny_messages(name: str) -> None:
    bound = official_renderer(name).prompt_bound
    assert bound
    assert bound.marks >= 1


PLAIN = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
JOINING = "{% for message in messages %}{{ message.content }}{% endfor %}"
WITHOUT_REPEATS = """{% set seen = namespace(texts=[]) %}{% for message in messages %}{% if message.content not in seen.texts %}
{% set seen.texts = seen.texts + [message.content] %}<|im_start|>{{ message.role }} {{ message.content }}<|im_end|>
{% endif %}{% endfor %}"""
TURN_BY_TURN = """{% for message in messages %}{% if loop.first or loop.previtem.role != message.role %}<|im_start|>
{% endif %}{{ message.role }} {{ message.content }}{% endfor %}"""


@pytest.mark.parametrize("template", [PLAIN, JOINING, WITHOUT_REPEATS, TURN_BY_TURN])
@settings(max_examples=25)
@given(messages=CONVERSATIONS)
@example(messages=[{"role": "user", "content": "x"}] * 300)
@example(messages=[{"role": "user", "content": "word " * 9}] * 300)
def test_a_template_that_marks_no_message_has_no_bound_on_their_number(template: str, messages: list[Any]) -> None:
    renderer = renderer_of(template)
    assert renderer.prompt_bound
    assert renderer.prompt_bound.marks == 0
    exact = count_exactly(renderer, chat_request({"messages": messages}))
    if exact is not None:
        assert count_by_outline(renderer, chat_request, json.dumps({"messages": messages}).encode(), 999) <= exact


@cache
def renderer_of(template: str) -> TemplateRenderer:
    return TemplateRenderer(tiny_tokenizer(template))


def test_a_tokenizer_without_a_bound_has_none_on_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("astuner.model.rendering.template_renderer.find_length_bound", lambda backend, added: None)
    assert TemplateRenderer(tiny_tokenizer()).prompt_bound is None


BODIES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=9) | st.dictionaries(st.text(st.characters(max_codepoint=127)), inner, max_size=4),
    max_leaves=20,
)


def outline(text: str, most_items: int = 5) -> tuple[Any, Measures]:
    measures = Measures(lambda text: len(text.encode("utf-8", "surrogatepass")))
    characters = text.encode("utf-8", "surrogatepass").decode("latin-1")
    return json.loads(characters, cls=OutlineDecoder, measures=measures, most_items=most_items), measures


def assert_outlines(found: Any, value: Any, measures: Measures) -> None:
    if isinstance(value, str):
        assert isinstance(found, str)
        assert len(found) <= LONGEST_KEPT
        if len(value.encode("utf-8", "surrogatepass")) <= LONGEST_KEPT // 12:
            assert found == value
        assert len(value.strip().encode("utf-8", "surrogatepass")) <= measures.count_bytes(found)
        assert measures.count_bytes(found) <= len(value.encode("utf-8", "surrogatepass"))
    elif isinstance(value, list):
        assert len(found) == min(5, len(value))
        for item, whole in zip(found, value, strict=False):
            assert_outlines(item, whole, measures)
    elif isinstance(value, dict):
        assert found.keys() == value.keys()
        for key in value:
            assert_outlines(found[key], value[key], measures)
    else:
        assert found == value


@given(value=BODIES, ascii_only=st.booleans(), indent=st.sampled_from([None, 2]))
def test_an_outline_has_the_form_and_the_lengths_of_the_body(value: Any, ascii_only: bool, indent: int | None) -> None:
    found, measures = outline(json.dumps(value, ensure_ascii=ascii_only, indent=indent))
    assert_outlines(found, value, measures)


@given(value=BODIES, cut=st.integers(1, 40), junk=st.sampled_from(["", "}", "]", ",", '"', "\\", "\n", "\ud800"]))
def test_an_outline_takes_only_valid_bodies(value: Any, cut: int, junk: str) -> None:
    text = json.dumps(value, ensure_ascii=False)
    text = text[:-cut] + junk
    assert _loads(lambda: json.loads(text)) == _loads(lambda: outline(text))


@pytest.mark.parametrize("character", [r"\"", r"\\", r"\n", r"\u00e9", r"\ud83d\ude00", "é", "中", "🙂", "a"])
@pytest.mark.parametrize("shift", range(17))
def test_a_character_at_the_end_of_a_piece_is_measured_once(character: str, shift: int) -> None:
    value = json.loads(f'"{"x" * shift}{character * (FIRST_PIECE + LARGEST_PIECE)}"')
    found, measures = outline(f'["{"x" * shift}{character * (FIRST_PIECE + LARGEST_PIECE)}", 1]')
    assert found[1] == 1
    assert measures.count_bytes(found[0]) == len(value.strip().encode())


def test_a_client_cannot_make_a_mark() -> None:
    (mark, forged), measures = outline(json.dumps(["x" * 1000, "<0000000000000000 0>"]))
    assert measures.count_bytes(mark) == 1000
    assert measures.count_bytes(forged) == len(forged)
    assert measures.count_bytes(f"{mark}\n{mark}") == 2001


LARGE: Mapping[str, Any] = {
    "with an emoji": {"messages": [{"role": "user", "content": "🙂" + "word " * 120_000}]},
    "many tiny messages": {"messages": [{"role": "user", "content": "x"}] * 20_000},
    "several long messages": {"messages": [{"role": "user", "content": "🙂" + "word " * 12_000}] * 10},
    "a tool": {"messages": [], "tools": [{"function": {"name": "f", "description": "🙂" + "word " * 120_000}}]},
    "ids": {"prompt": [100_000] * 80_000},
    "parts": {"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}] * 20_000}]},
}


@pytest.mark.parametrize("kind", LARGE)
def test_an_outline_takes_less_memory_than_the_body_decoded(kind: str) -> None:
    raw = bytearray(json.dumps(LARGE[kind], ensure_ascii=False).encode())
    size = len(raw)
    assert size > 500_000
    tracemalloc.start()
    try:
        body = LargeBody.take(raw)
        found = body.outline(len, 2049)
        assert found
        # The bytes as they came, which the body replaces, are not among them.
        assert tracemalloc.get_traced_memory()[1] < 2.5 * size
    finally:
        tracemalloc.stop()


def _loads(load: Callable[[], Any]) -> bool:
    try:
        load()
    except (ValueError, RecursionError):
        return False
    return True
