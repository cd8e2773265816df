"""What the detectors take for abnormal, and what they never do."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astuner_devkit.ordinary_texts import ORDINARY_TEXTS
from astuner_devkit.sampled_answers import function_tool, make_sampled
from astuner_judges.detectors.non_ascii import NonAscii
from astuner_judges.detectors.nonsense import Nonsense
from astuner_judges.detectors.special_token_leak import SpecialTokenLeak
from astuner_judges.detectors.wrong_toolcall import WrongToolcall

BY_DEFAULT = (Nonsense(), WrongToolcall(), SpecialTokenLeak())
ANSWERS = [json.loads(line) for line in (Path(__file__).parent / "data" / "gsm8k_answers.jsonl").read_text().splitlines()]

BEGIN = "First, add the numbers: 3 + 4 = 7. Then divide by two, which gives 3.5.\n"
FEW = ("Wait, let me check that again. ", "Actually, that is not right. ", "Hmm, let me think. ", "So the answer is 7. ")

LOOPS = {
    "a word": "the ",
    "a line": "I need to check the answer again.\n",
    "a sentence": "So the answer is 42. ",
    "an answer in a box": "\\boxed{42}\n\n",
    "a paragraph": "Let me start over. The train leaves at nine and arrives at noon, so it needs three hours. But wait, that is "
    "not what was asked. The question is how far it goes, and that depends on its speed. Let me read it again.\n\n",
    "Chinese": "我需要再检查一遍。",
    "Arabic": "دعني أتحقق مرة أخرى. ",
    "code": "    x = x + 1\n",
    "a closing tag": "</div>\n",
    "emoji": "🎉",
    "a mark": "!",
    "a zero": "0",
    "spaces": " ",
}


def in_a_loop(piece: str, length: int) -> str:
    return BEGIN + piece * (length // len(piece) + 1)


@pytest.mark.parametrize("finish_reason", ["stop", "length", "context"])
@pytest.mark.parametrize("name", ORDINARY_TEXTS)
def test_an_ordinary_text_triggers_nothing(name: str, finish_reason: str) -> None:
    text = ORDINARY_TEXTS[name]
    answer = make_sampled(text if finish_reason == "stop" else text[: len(text) * 2 // 3], finish_reason=finish_reason)
    assert [detector.look(answer) for detector in BY_DEFAULT] == [None, None, None]


@pytest.mark.parametrize("finish_reason", ["stop", "length"])
def test_solutions_of_word_problems_trigger_nothing(finish_reason: str) -> None:
    assert {Nonsense().look(make_sampled(answer, finish_reason=finish_reason)) for answer in ANSWERS} == {None}


def test_many_solutions_after_each_other_trigger_nothing() -> None:
    assert Nonsense().look(make_sampled("\n\n".join(ANSWERS))) is None


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_that_only_the_limit_ended_is_nonsense(name: str) -> None:
    found = Nonsense().look(make_sampled(in_a_loop(LOOPS[name], 3000), finish_reason="length"))
    assert found is not None
    assert "times in a row" in found


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_inside_of_an_answer_is_nonsense(name: str) -> None:
    assert Nonsense().look(make_sampled(in_a_loop(LOOPS[name], 4500) + "\nThat is all, and the answer is 7.")) is not None


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_of_a_refrains_length_is_ordinary(name: str) -> None:
    assert Nonsense().look(make_sampled(in_a_loop(LOOPS[name], 300), finish_reason="length")) is None


def test_the_evidence_quotes_the_repeated_piece_and_counts_it() -> None:
    found = Nonsense().look(make_sampled(BEGIN + "So the answer is 42. " * 200, finish_reason="length"))
    assert found == "'So the answer is 42. ' 200 times in a row, over 4200 characters"


def test_the_quote_of_a_long_piece_is_cut() -> None:
    found = Nonsense().look(make_sampled(LOOPS["a paragraph"] * 20))
    assert found is not None
    assert found.startswith("'Let me start over. ")
    assert len(found) < 150


def test_a_run_of_one_mark_up_to_the_limit_needs_no_length() -> None:
    assert (
        Nonsense().look(make_sampled(BEGIN + "!" * 600, finish_reason="length")) == "'!' 600 times in a row, over 600 characters"
    )


def test_half_a_character_at_the_end_does_not_hide_a_loop() -> None:
    assert Nonsense().look(make_sampled(BEGIN + "the " * 750 + "\ufffd", finish_reason="length")) is not None


@pytest.mark.parametrize("finish_reason", ["stop", "length"])
def test_a_piece_that_holds_repetition_itself_is_found(finish_reason: str) -> None:
    # All places that are looked at lie inside of the dashes.
    piece = "- " * 60 + "one more row" + "- " * 30 + "*" * 8
    assert len(piece) == 200
    assert Nonsense().look(make_sampled(piece * 40 + "- " * 60, finish_reason=finish_reason)) is not None


def test_the_same_few_sentences_in_any_order_are_nonsense() -> None:
    found = Nonsense().look(make_sampled("".join(Random(0).choices(FEW, k=300))))
    assert found is not None
    assert found.startswith("4 different ones among 300 lines and sentences; ")


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=300), st.integers(0, 5))
def test_whatever_repeats_for_long_is_found(piece: str, before: int) -> None:
    assert Nonsense().look(make_sampled(BEGIN * before + piece * (9000 // len(piece)) + " Done.")) is not None


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=20), max_size=200, unique=True))
def test_what_never_repeats_is_not_found(words: list[str]) -> None:
    assert Nonsense().look(make_sampled(" ".join(words), finish_reason="length")) is None


ADD = function_tool(
    "add",
    {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "how": {"type": "object", "required": ["unit"]}},
        "required": ["a", "b"],
    },
)
PLAIN = {"type": "function", "function": {"name": "now"}}


def detect(name: str, arguments: object, **more: object) -> str | None:
    return WrongToolcall().look(make_sampled("…", tools=(ADD, PLAIN), tool_calls=[(name, arguments)], **more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("add", {"a": 1, "b": 2}),
        ("add", {"a": "one", "b": None, "c": "π"}),
        ("add", {"a": 1, "b": 2, "how": {"unit": "m"}}),
        ("now", {}),
        ("now", {"anything": "goes"}),
    ],
)
def test_a_call_that_its_tool_can_take_is_right(name: str, arguments: object) -> None:
    assert detect(name, arguments) is None


@pytest.mark.parametrize(
    ("name", "arguments", "evidence"),
    [
        ("ad", {"a": 1}, "calls the tool 'ad', which was not offered; offered: add, now"),
        ("add", {"a": 1}, "calls 'add' with '{\"a\": 1}': arguments: missing 'b'"),
        ("add", {}, "calls 'add' with '{}': arguments: missing 'a', 'b'"),
        ("add", "[1, 2]", "calls 'add' with '[1, 2]': arguments: not a JSON object"),
        ("now", "not now", "calls 'now' with 'not now': arguments: not a JSON object"),
        ("add", {"a": 1, "b": 2, "how": "fast"}, "arguments.how: not a JSON object"),
        ("add", {"a": 1, "b": 2, "how": {}}, "arguments.how: missing 'unit'"),
    ],
)
def test_a_call_that_its_tool_cannot_take_is_wrong(name: str, arguments: object, evidence: str) -> None:
    assert evidence in (detect(name, arguments) or "")


def test_a_call_that_cannot_be_read_is_wrong() -> None:
    answer = make_sampled('<tool_call>{"name": add}</tool_call>', malformed=1, tools=(ADD,))
    assert WrongToolcall().look(answer) == "1 tool call that cannot be read: '<tool_call>{\"name\": add}</tool_call>'"


def test_a_call_that_the_limit_cut_off_is_not_wrong() -> None:
    assert WrongToolcall().look(make_sampled('<tool_call>{"name"', malformed=1, tools=(ADD,), finish_reason="length")) is None


def test_an_odd_schema_of_a_tool_is_no_fault_of_the_model() -> None:
    odd = function_tool("odd", {"type": ["object", "null"], "required": ["a"], "properties": {"a": True}})
    assert WrongToolcall().look(make_sampled("…", tools=(odd,), tool_calls=[("odd", {"b": 1})])) is None


def test_a_leak_is_told_with_its_surroundings() -> None:
    found = SpecialTokenLeak().look(
        make_sampled("It is 4.<|im_start|>user<|im_start|>", special_tokens=("<|im_start|>", "<|im_start|>"))
    )
    assert found == "sampled <|im_start|> (2 times): 'It is 4.<|im_start|>user<|im_start|>'"


@pytest.mark.parametrize(
    ("text", "evidence"),
    [("plain ASCII\n\t~", None), ("πππ", "'π' (U+03C0)"), ("áéíóúàèìòù", "'ó' (U+00F3), 'ú' (U+00FA), 'à' (U+00E0)")],
)
def test_other_characters_are_found_only_where_it_is_asked_for(text: str, evidence: str | None) -> None:
    found = NonAscii().look(make_sampled(text))
    assert found is None if evidence is None else evidence in (found or "")
