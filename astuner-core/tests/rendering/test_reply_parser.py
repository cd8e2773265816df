"""Sampled text to replies."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from astuner.model.rendering.reply_parser import AnswerParser, Piece
from astuner.model.rendering.tool_calls import STYLES
from astuner.model.rendering.tool_calls.sampled_json import read_call

TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {}}}]
CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'


def hermes(*, tools: bool = True, **options: Any) -> AnswerParser:
    return AnswerParser(STYLES["hermes"], tools=TOOLS if tools else (), **options)


def parse(*texts: str, **options: Any) -> dict[str, Any]:
    parser = hermes(**options)
    pieces = [piece for text in texts for piece in parser.feed(text)] + list(parser.finish())
    found: dict[str, Any] = {"content": "", "reasoning": "", "calls": [], "malformed": parser.malformed}
    for piece in pieces:
        if piece.kind == "tool_call":
            found["calls"].append((piece.name, piece.text))
        else:
            found[piece.kind] += piece.text
    return found


@pytest.mark.parametrize(
    ("text", "content", "reasoning", "calls"),
    [
        ("plain\n", "plain\n", "", 0),
        ("", "", "", 0),
        (f"\n{CALL}\n", "", "", 1),
        (f"first\n{CALL}\n{CALL}", "first", "", 2),
        (f"{CALL}\nthen", "then", "", 1),
        (f"first {CALL} then", "first then", "", 1),
        (f"<think>\nhm hm\n</think>\n\n{CALL}", "", "hm hm", 1),
        ("<think>never ended\n", "", "never ended", 0),
        ("<think>\n\n</think>\n\nyes", "yes", "", 0),
        ("a <think> in the middle", "a <think> in the middle", "", 0),
        ("1 < 2 <tool", "1 < 2 <tool", "", 0),
        ("<thin", "<thin", "", 0),
    ],
)
def test_parts_of_an_answer(text: str, content: str, reasoning: str, calls: int) -> None:
    found = parse(text)
    assert (found["content"], found["reasoning"], len(found["calls"])) == (content, reasoning, calls)
    assert found["malformed"] == 0


@pytest.mark.parametrize(
    "block",
    [
        "{}",
        "nonsense",
        '{"name": "add"}',
        '{"name": 3, "arguments": {}}',
        '{"name": "", "arguments": {}}',
        '{"name": "add", "arguments": [1]}',
        '{"name": "add", "arguments": {}} {}',
        '{"name": "add", "arguments": {}',
        '{"name": "add" "arguments": {}}',
        '{1: "add", "arguments": {}}',
        '{"name": "add", "arguments": ' + '{"a":' * 100_000,
    ],
)
def test_a_malformed_call_stays_as_it_was_written(block: str) -> None:
    found = parse(f"so: <tool_call>{block}</tool_call>")
    assert found["content"] == f"so: <tool_call>{block}</tool_call>"
    assert (found["calls"], found["malformed"]) == ([], 1)


def test_a_call_that_was_cut_off_stays_as_it_was_written() -> None:
    found = parse('ok\n<tool_call>\n{"name": "add", "argu')
    assert found["content"] == 'ok\n<tool_call>\n{"name": "add", "argu'
    assert found["malformed"] == 1


@pytest.mark.parametrize("arguments", ['{"a":1,  "b": 2}', "{ }", '{"é": "\\u4e2d 中"}', '{"a": {"b": [1, {"c": null}]}}'])
def test_arguments_are_the_models_own_text(arguments: str) -> None:
    assert read_call(f' {{"name":"add" , "arguments" :{arguments}}} ') == Piece("tool_call", arguments, "add")


def test_arguments_written_as_a_string_are_unpacked() -> None:
    assert read_call('{"name": "add", "arguments": "{\\"a\\": 1}"}') == Piece("tool_call", '{"a": 1}', "add")


def test_calls_beyond_the_first_are_dropped_where_one_is_wanted() -> None:
    parser = hermes(parallel=False)
    assert len([*parser.feed(CALL + CALL), *parser.finish()]) == 1
    assert parser.dropped == 1


pieces = st.sampled_from(["<think>", "</think>", "<tool_call>", "</tool_call>", CALL, "\n", " ", "a", "<", "中", '{"name": "x"}'])


@given(st.lists(pieces, max_size=12), st.lists(st.integers(0, 60), max_size=12), st.booleans(), st.booleans())
def test_where_the_text_is_cut_into_parts_does_not_matter(parts: list[str], cuts: list[int], tools: bool, thinking: bool) -> None:
    text = "".join(parts)
    places = sorted({min(cut, len(text)) for cut in cuts})
    split = [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]
    assert parse(*split, tools=tools, thinking=thinking) == parse(text, tools=tools, thinking=thinking)


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.lists(st.floats(allow_nan=False))), st.integers(0, 3))
def test_any_json_object_is_read_back(arguments: dict[str, Any], indent: int) -> None:
    text = json.dumps(arguments, indent=indent or None)
    read = read_call(json.dumps({"name": "f"})[:-1] + f', "arguments": {text}}}')
    assert read == Piece("tool_call", text, "f")


KEPT = evolve(STYLES["hermes"], splits=False)


@given(
    text=st.lists(st.sampled_from(["<think>", "</think>", "<thi", "a", " ", "\n", "</"]), max_size=8).map("".join),
    size=st.integers(1, 9),
    thinking=st.booleans(),
    tools=st.booleans(),
)
def test_kept_reasoning_is_the_text_as_sampled(text: str, size: int, thinking: bool, tools: bool) -> None:
    parser = AnswerParser(KEPT, tools=TOOLS if tools else (), thinking=thinking)
    parts = [text[start : start + size] for start in range(0, len(text), size)]
    pieces = [piece for part in parts for piece in parser.feed(part)] + list(parser.finish())
    assert "".join(piece.text for piece in pieces) == text
    assert {piece.kind for piece in pieces} <= {"content"}


@pytest.mark.parametrize(
    ("text", "content", "calls"),
    [
        (f"<think>\nhm\n</think>\n\n{CALL}", "<think>\nhm\n</think>", 1),
        (f"<think>\nI could write {CALL}\n</think>\nno", f"<think>\nI could write {CALL}\n</think>\nno", 0),
        (f"<think>\nI could write {CALL}", f"<think>\nI could write {CALL}", 0),
    ],
)
def test_a_call_is_read_after_kept_reasoning_and_not_from_it(text: str, content: str, calls: int) -> None:
    parser = AnswerParser(KEPT, tools=TOOLS)
    pieces = [*parser.feed(text), *parser.finish()]
    assert "".join(piece.text for piece in pieces if piece.kind == "content") == content
    assert [piece.name for piece in pieces if piece.kind == "tool_call"] == ["add"] * calls
