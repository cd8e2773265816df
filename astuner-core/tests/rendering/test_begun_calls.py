"""Tool calls that are passed on while they are written: how the text is cut does not change what is read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from test_tool_calls import CALLS, TOOLS, parts

from astuner.model.rendering.reply_parser import Style
from astuner.model.rendering.tool_calls import STYLES
from astuner.model.rendering.tool_calls.begun_calls import PiecewiseParser

WHOLE = {"harmony", "python", "lfm2", "gemma", "minimax_m3"}
"""The formats whose calls come in one piece."""
JSON = {
    name: call.replace('{"a":1}', '{"why": "a \\"}\\" b", "a":1}')
    for name, call in CALLS.items()
    if '{"a":1}' in call and name not in WHOLE
}
BROKEN = st.sampled_from(
    [
        *('"', "\\", '{"a": "', ", ", "null", '"}', "}}", "<arg_value>1", "</arg_value>", "</parameter>\n", "<parameter=a>\n"),
        *("</function>", "<function=add>\n", '<tool_call>{"name": "add", "arguments": {', '[TOOL_CALLS]add[ARGS]{"a"'),
    ]
)


def read(name: str, texts: Sequence[str], *, pieces: bool = True, parallel: bool = True) -> dict[str, Any]:
    style = STYLES[name]
    if isinstance(style, Style):
        style = evolve(style, make_parser=PiecewiseParser if pieces else None)
    parser = style("", tools=TOOLS, parallel=parallel)
    found: dict[str, Any] = {"content": "", "reasoning": "", "calls": [], "deltas": 0}
    is_open = False
    for piece in [piece for text in texts for piece in parser.feed(text)] + list(parser.finish()):
        assert piece.follows == is_open
        is_open = piece.open
        if piece.kind != "tool_call":
            found[piece.kind] += piece.text
        elif piece.follows:
            found["calls"][-1][2] += piece.text
            found["deltas"] += 1
        else:
            found["calls"].append([piece.name, piece.id, piece.text])
    assert not is_open
    return {**found, "malformed": parser.malformed, "dropped": parser.dropped}


@pytest.mark.parametrize("name", sorted(CALLS.keys() - WHOLE))
def test_the_arguments_come_in_pieces(name: str) -> None:
    call = JSON.get(name, CALLS[name])
    found = read(name, list(call))
    assert found["deltas"] >= (10 if name in JSON else 2)
    assert {**found, "deltas": 0} == read(name, [call], pieces=False)


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_other_formats_send_a_call_in_one_piece(name: str) -> None:
    found = read(name, list(CALLS[name]))
    assert (found["deltas"], len(found["calls"])) == (0, 1)


@st.composite
def answers(draw: st.DrawFn) -> tuple[str, str]:
    """A style, and an answer with a call of it in which something may be missing, doubled or foreign."""
    name = draw(st.sampled_from(sorted(CALLS)))
    call = JSON.get(name, CALLS[name])
    cut = draw(st.integers(0, len(call)))
    again = draw(st.integers(cut, len(call)))
    inside, after = (draw(st.lists(st.one_of(parts, BROKEN), max_size=size)) for size in (4, 6))
    return name, "".join([draw(st.sampled_from(["", "text "])), call[:cut], *inside, call[again:], *after])


@given(answers(), st.lists(st.integers(0, 600), max_size=12), st.booleans(), st.booleans())
def test_where_the_text_is_cut_into_parts_does_not_matter(
    answer: tuple[str, str], cuts: list[int], parallel: bool, every: bool
) -> None:
    name, text = answer
    places = sorted({min(cut, len(text)) for cut in cuts}) if not every else list(range(1, len(text)))
    split = [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]
    streamed, whole = read(name, split, parallel=parallel), read(name, [text], parallel=parallel)
    assert {**streamed, "deltas": 0} == {**whole, "deltas": 0}


@pytest.mark.parametrize(
    ("name", "text", "arguments", "content"),
    [
        ("hermes", '<tool_call>{"name": "add", "arguments": {"a": 1, "why": "x', '{"a": 1, "why": "x', ""),
        ("hermes", '<tool_call>{"name": "add", "arguments": {"a": 1,,}}</tool_call>then', '{"a": 1,,}', "then"),
        ("hermes", '<tool_call>{"name": "add", "arguments": {"a": 1</tool_call>then', '{"a": 1', "then"),
        ("kimi", CALLS["kimi"].replace("1}", "1"), '{"a":1', ""),
        (
            "qwen_xml",
            "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n<parameter=why>\nx",
            '{"a": 1',
            "<parameter=why>\nx",
        ),
    ],
)
def test_a_call_that_breaks_keeps_its_name_and_what_was_written(name: str, text: str, arguments: str, content: str) -> None:
    found = read(name, list(text))
    assert [call[0::2] for call in found["calls"]] == [["add", arguments]]
    assert (found["malformed"], found["content"].strip()) == (1, content)
    with pytest.raises(json.JSONDecodeError):
        json.loads(arguments)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hermes", '<tool_call>{"name": "unknown", "arguments": {"a": 1'),
        ("hermes", '<tool_call>{"arguments": {"a": 1'),
        ("hermes", '<tool_call>{"name": "add", "arguments": "{\\"a\\": 1'),
        ("glm", "<tool_call>add"),
        ("llama3", '{"name": "Ada", "parameters": {"a": 1'),
    ],
)
def test_before_its_arguments_begin_or_if_the_tool_was_not_offered_nothing_is_a_call(name: str, text: str) -> None:
    found = read(name, list(text))
    assert (found["calls"], found["content"]) == ([], text)


def test_a_call_whose_arguments_are_complete_is_one_without_its_closing_marker() -> None:
    found = read("hermes", list('<tool_call>{"name": "add", "arguments": {"a": 1}}'))
    assert found["calls"] == [["add", "", '{"a": 1}']]
