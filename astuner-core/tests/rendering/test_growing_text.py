"""Texts of conversations that grow are those of renderings from scratch, with what is said again left out."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
from attrs import define
from hypothesis import given, settings
from hypothesis import strategies as st
from official_templates import FAMILIES, official_renderer

from astuner.model.gateway.recording.messages import MessageReader
from astuner.model.rendering import TemplateRenderer
from astuner.model.rendering.errors import ApiError
from astuner.model.rendering.growing_text import MOST, SHORTEST, GrowingText
from astuner_devkit.tokenizer import tiny_tokenizer

TOOL = {"type": "function", "function": {"name": "look", "description": "x", "parameters": {"type": "object", "properties": {}}}}
OTHER = {"type": "function", "function": {"name": "add", "description": "x", "parameters": {"type": "object", "properties": {}}}}


def user(number: int) -> dict[str, Any]:
    return {"role": "user", "content": f"question {number}"}


def answer(number: int, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": f"answer {number}", **fields}


def calls(number: int, count: int = 1, **fields: Any) -> dict[str, Any]:
    function = {"name": "look", "arguments": json.dumps({"n": number})}
    made = [{"id": f"call{number:04}{place}", "type": "function", "function": function} for place in range(count)]
    return {"role": "assistant", "content": "", "tool_calls": made, **fields}


def result(number: int, place: int = 0) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"call{number:04}{place}", "name": "look", "content": f"result {number} {place}"}


def act(turns: int) -> list[list[dict[str, Any]]]:
    """The conversations of an agent that calls a tool in each turn, as its calls send them."""
    found = [[{"role": "system", "content": "Be brief."}, user(0)]]
    for turn in range(turns):
        found.append([*found[-1], calls(turn, reasoning_content=f"thought {turn}"), result(turn)])
    return found


def talk(turns: int) -> list[list[dict[str, Any]]]:
    """The conversations of a user who asks again after each answer."""
    found = [[{"role": "system", "content": "Be brief."}, user(0)]]
    for turn in range(1, turns):
        found.append([*found[-1], answer(turn, reasoning_content=f"thought {turn}"), user(turn)])
    return found


@define
class Counting:
    """A renderer that knows how many messages it was given."""

    renderer: TemplateRenderer
    messages: int = 0

    def render(self, messages: Sequence[Any], **options: Any) -> str:
        self.messages += len(messages)
        return self.renderer.render(messages, **options)

    def counts_little(self, tools: Sequence[Any]) -> bool:
        return self.renderer.counts_little(tools)


def render(renderer: TemplateRenderer | GrowingText, messages: Any, **options: Any) -> str:
    try:
        return renderer.render(messages, **{"tools": [TOOL], "generate": True, "kwargs": {}, **options})
    except ApiError as error:
        return f"refused: {error}"


def count_rendered(renderer: TemplateRenderer, conversations: Sequence[Sequence[Any]]) -> list[int]:
    """The messages that are rendered in each call; each text must be that of a rendering from scratch."""
    counting, read, found = Counting(renderer), MessageReader(), []
    growing = GrowingText(counting)  # type: ignore[arg-type]
    for conversation in conversations:
        messages, before = read([*conversation]), counting.messages
        assert render(growing, messages) == render(renderer, messages)
        found.append(counting.messages - before)
    return found


WHOLE = {("gptoss", "act"), ("gptoss", "talk"), ("deepseekv3", "act"), ("deepseek_r1_distill", "act")}
"""Counts to fifty; shows each call of a tool but the first in another way."""


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", ["act", "talk"])
def test_most_calls_render_few_messages(kind: str, family: str) -> None:
    found = count_rendered(official_renderer(family), {"act": act, "talk": talk}[kind](120))
    few = sum(count <= MOST for count in found[SHORTEST // 2 :])
    assert few < 30 if (family, kind) in WHOLE else few > 80, found


HEAD = "{% for m in messages %}<|im_start|>{{ m.role }} {{ m.content }}{{ m.tool_calls|tojson if m.tool_calls }}"
FOOT = "<|im_end|>{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant {% endif %}"
TEMPLATES = {
    "counts in the loop": HEAD + "{{ messages|length }}" + FOOT,
    "counts down": HEAD + "{{ messages|length - loop.index }}" + FOOT,
    "counts down by the loop": HEAD + "{{ loop.revindex }}" + FOOT,
    "shows the last message": HEAD + "{{ messages[-1].role }}" + FOOT,
    "shows a message of the end": HEAD + "{{ messages[-loop.index].role }}" + FOOT,
    "looks ahead": HEAD + "{% for other in messages[loop.index:] %}{{ loop.index }}{% endfor %}" + FOOT,
    "counts before": "{% set n = messages|length %}" + HEAD + "{{ n }}" + FOOT,
    "counts in a namespace": "{% set n = namespace(n=messages|length) %}" + HEAD + "{{ n.n }}" + FOOT,
    "compares with a count": "{% set n = namespace(n=messages|length) %}" + HEAD + "{{ loop.index0 < n.n - 2 }}" + FOOT,
    "counts in a macro": "{% macro f() %}{{ messages|length }}{% endmacro %}" + HEAD + "{{ f() }}" + FOOT,
    "shows all roles": HEAD + "{{ messages|map(attribute='role')|join }}" + FOOT,
    "counts a list of its own": "{% set all = messages|map(attribute='content')|list %}" + HEAD + "{{ all|length }}" + FOOT,
    "goes back": HEAD.replace("in messages", "in messages|reverse") + FOOT,
    "joins and counts": "{% set c = namespace(c=joiner('-')) %}" + HEAD + "{{ c.c() }}" + FOOT,
    "keeps a namespace in a list": "{% set n = namespace(n=0) %}{% set l = [n] %}"
    + HEAD
    + "{% set n.n = n.n + 1 %}{{ l[0].n }}"
    + FOOT,
    "has two names for a namespace": "{% set n = namespace(n=0) %}{% set o = n %}"
    + HEAD
    + "{% set o.n = 1 %}{{ loop.index > n.n }}"
    + FOOT,
    "has a block": "{% block b %}" + HEAD + FOOT + "{% endblock %}",
    "changes": HEAD + "{{ loop.changed(messages|length) }}" + FOOT,
    "counts at the top": "{{ messages|length }}" + HEAD + FOOT,
    "counts at the end": HEAD + FOOT + "{{ messages|length }}",
    "counts rounds": "{% set n = namespace(n=0) %}" + HEAD + "{% set n.n = n.n + 1 %}{{ n.n }}" + FOOT + "{{ n.n }}",
    "remembers a message": "{% set n = namespace(m='') %}" + HEAD + "{{ n.m.content }}{% set n.m = m %}" + FOOT,
    "collects": "{% set n = namespace(l=[]) %}" + HEAD + "{% set n.l = n.l + [m.content] %}" + FOOT + "{{ n.l|length }}",
    "goes on": HEAD + "{% if m.role == 'system' %}{% continue %}{% endif %}x" + FOOT,
    "looks back": HEAD + "{% if loop.index0 %}{{ messages[loop.index0 - 1].role }}{% endif %}" + FOOT,
    "looks forward": HEAD + "{% if not loop.last %}{{ loop.nextitem.role }}{% endif %}" + FOOT,
    "looks at neighbours": HEAD + "{{ loop.previtem.role if loop.previtem }}{{ loop.nextitem.role if loop.nextitem }}" + FOOT,
    "leaves out the first": "{{ messages[0].content }}{% set rest = messages[1:] %}"
    + HEAD.replace("in messages", "in rest")
    + FOOT,
    "is in a condition": "{% if messages %}" + HEAD + FOOT + "{% else %}no{% endif %}",
    "has a loop in it": HEAD + "{% for c in m.tool_calls %}{{ loop.index }}{{ loop.last }}{% endfor %}{{ loop.index }}" + FOOT,
    "ends a loop in it": HEAD + "{% for c in m.tool_calls %}{% else %}{{ loop.index0 }}{% endfor %}" + FOOT,
    "shows through a macro": "{% macro f(messages) %}{{ messages.role }}{% endmacro %}" + HEAD + "{{ f(m) }}" + FOOT,
    "changes in a macro": "{% set n = namespace(n=0) %}{% macro f() %}{% set n.n = n.n + 1 %}{{ n.n }}{% endmacro %}"
    + HEAD
    + "{{ f() }}"
    + FOOT,
    "is searched first": "{% set n = namespace(n=-1) %}{% for m in messages %}{% if m.role == 'user' %}"
    "{% set n.n = loop.index0 %}{% endif %}{% endfor %}"
    + HEAD
    + "{{ loop.index0 > n.n }}{{ n.n <= loop.index }}{{ loop.index0 == n.n }}"
    + FOOT,
    "is searched from behind": "{% set n = namespace(n=-1, on=true) %}{%- for m in messages[::-1] %}"
    "{%- set i = messages|length - 1 - loop.index0 %}{%- if n.on and m.role == 'user' %}{% set n.on = false %}{% set n.n = i %}"
    "{%- endif %}{%- endfor %}" + HEAD + "{{ loop.index0 > n.n }}" + FOOT,
    "shows fewer later": HEAD + "{% if loop.index > 40 %}late{% endif %}" + FOOT,
    "knows a question again": "{% set n = namespace(l=[]) %}" + HEAD + "{% if m.content in n.l %}again{% endif %}"
    "{% set n.l = n.l + [m.content] %}" + FOOT,
}
"""Templates that look ahead, back, at everything, or count."""


@cache
def made_renderer(name: str) -> TemplateRenderer:
    return TemplateRenderer(tiny_tokenizer(TEMPLATES[name]))


@pytest.mark.parametrize("name", TEMPLATES)
def test_no_template_shows_another_text(name: str) -> None:
    count_rendered(made_renderer(name), talk(60))
    count_rendered(made_renderer(name), act(60))


def test_a_template_that_looks_back_over_everything_is_found_out(caplog: pytest.LogCaptureFixture) -> None:
    again = "{% for o in messages[:loop.index0] %}{% if o.content == m.content %} again{% endif %}{% endfor %}"
    renderer, read = TemplateRenderer(tiny_tokenizer(HEAD + again + FOOT)), MessageReader()
    growing, differs = GrowingText(renderer), []
    for conversation in talk(120):
        messages = read([{**one, "content": one["content"].replace("question 40", "question 5")} for one in conversation])
        differs.append(render(growing, messages) != render(renderer, messages))
    # From the repeated question on, until all is rendered and compared.
    assert differs.index(True) == 40
    assert caplog.text.count("are rendered whole from now on") == 1
    assert not any(differs[-10:])


@st.composite
def requests(draw: st.DrawFn) -> list[tuple[list[dict[str, Any]], dict[str, Any]]]:
    """Requests of one agent, most of which continue the one before; some change what has been."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}] if draw(st.booleans()) else []
    begin = act(30)[-1][1:] if draw(st.booleans()) else talk(30)[-1][1:]
    messages += begin[: draw(st.integers(SHORTEST - 4, SHORTEST + 10))]
    found = []
    number = 100
    for _ in range(draw(st.integers(2, 14))):
        thought = {"reasoning_content": f"thought {number}"} if draw(st.booleans()) else {}
        kind = draw(st.sampled_from([*["act"] * 4, *["talk"] * 3, "shorten", "edit", "think", "instruct", "many"]))
        if messages[-1]["role"] == "assistant":
            messages = [*messages, result(number) if messages[-1].get("tool_calls") else user(number)]
        if kind == "act":
            count = draw(st.integers(1, 2))
            messages = [*messages, calls(number, count, **thought), *(result(number, place) for place in range(count))]
        elif kind == "talk":
            messages = [*messages, answer(number, **thought), user(number)]
        elif kind == "many":
            messages = [
                *messages,
                *(one for turn in range(10) for one in (calls(number + turn, **thought), result(number + turn))),
            ]
        elif kind == "shorten":
            messages = messages[: draw(st.integers(len(messages) // 2, len(messages)))]
        elif kind == "edit":
            place = draw(st.integers(0, len(messages) - 1))
            messages = [*messages[:place], {**messages[place], "content": f"edited {number}"}, *messages[place + 1 :]]
        elif kind == "think":
            messages = [*messages, answer(number), {"role": "user", "content": f"<tool_response>{number}</tool_response>"}]
        else:
            messages = [*messages, {"role": "system", "content": f"instruction {number}"}, user(number)]
        number += 20
        options = {
            "tools": draw(st.sampled_from([[TOOL], [TOOL], [TOOL], [TOOL, OTHER], []])),
            "generate": draw(st.sampled_from([True, True, True, False])),
            "kwargs": draw(st.sampled_from([{}, {}, {}, {"enable_thinking": False}])),
        }
        found.append((messages, options))
    return found


def check_requests(renderer: TemplateRenderer, asked: Sequence[tuple[list[dict[str, Any]], dict[str, Any]]]) -> None:
    growing, read = GrowingText(renderer), MessageReader()
    for conversation, options in asked:
        messages = read(conversation)
        assert render(growing, messages, **options) == render(renderer, messages, **options)


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=int(os.environ.get("ASTUNER_RENDERINGS", "8")), deadline=None)
@given(asked=requests())
def test_any_requests_are_rendered_as_from_scratch(family: str, asked: list[Any]) -> None:
    check_requests(official_renderer(family), asked)


@pytest.mark.parametrize("name", TEMPLATES)
@settings(max_examples=3, deadline=None)
@given(asked=requests())
def test_any_requests_are_rendered_as_from_scratch_by_any_template(name: str, asked: list[Any]) -> None:
    check_requests(made_renderer(name), asked)
