from __future__ import annotations

import pytest

from astuner.rollout.environments.actions import extract_action


def content(preference: str, text: str) -> tuple[str, bool]:
    action = extract_action({"role": "assistant", "content": text}, preference)
    return action.message["content"], action.found


CODE = [
    ("```python\nprint(1)\n```", "print(1)"),
    ("First\n```\na\n```\nthen\n```py\nb\nc\n```\nDone.", "b\nc"),
    ("~~~\nx = '```'\n~~~", "x = '```'"),
    ("````md\n```\ninner\n```\n````", "```\ninner\n```"),
    ("  ```js\n  x\n  ```", "  x"),
    ("```\n```", ""),
    ("```\nclosed\n```\nand\n```\nnot closed", "closed"),
]


@pytest.mark.parametrize(("text", "code"), CODE)
def test_code_is_the_last_closed_block(text: str, code: str):
    assert content("code", text) == (code, True)


BOX = [
    (r"so \boxed{4}", "4"),
    (r"\boxed{1} no, \boxed{\frac{1}{2}}", r"\frac{1}{2}"),
    (r"\boxed{ \{1, 2\} }", r"\{1, 2\}"),
    (r"\boxed{\left\{ 1}", r"\left\{ 1"),
    (r"\boxed {a}", "a"),
    ("<action>go\nnorth</action>", "go\nnorth"),
    (r"<action>go</action> \boxed{stay}", "stay"),
    (r"\boxed{stay} <action>go</action>", "go"),
    (r"\boxed{4} and \boxed{5", "4"),
]


@pytest.mark.parametrize(("text", "box"), BOX)
def test_a_box_is_the_last_closed_one(text: str, box: str):
    assert content("box", text) == (box, True)


@pytest.mark.parametrize("preference", ["code", "box"])
@pytest.mark.parametrize("text", ["", "just words", "```\nopen", r"\boxed{open", "an inline ```x``` block", "<action>open"])
def test_the_whole_answer_stands_for_what_is_not_there(preference: str, text: str):
    assert content(preference, text) == (text, False)


def test_text_is_taken_as_it_is():
    assert content("text", " ```\nx\n``` ") == (" ```\nx\n``` ", True)


def test_an_answer_that_calls_tools_is_an_action_as_it_is():
    reply = {"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]}
    assert extract_action(reply, "code") == extract_action(reply, "text")


def test_what_else_an_answer_holds_stays():
    action = extract_action({"role": "assistant", "content": r"\boxed{1}", "reasoning_content": "hm"}, "box")
    assert action.message == {"role": "assistant", "content": "1", "reasoning_content": "hm"}
