from __future__ import annotations

import pytest

from astuner.episodes.rollout.environments.actions import extract_action


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


@pytest.mark.parametrize("preference", ["text", "code", "box"])
@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<think>```\nrm -rf x\n``` or \\boxed{0}</think>\n\ngo left", "go left"),
        ("\n<think>```\nrm -rf x\n``` or \\boxed{0}", ""),
        ("opened by the prompt: \\boxed{0}</think>go left", "go left"),
        ("[THINK]\\boxed{0}[/THINK]go left", "go left"),
    ],
)
def test_reasoning_is_never_part_of_an_action(preference: str, text: str, answer: str):
    assert content(preference, text) == (answer, preference == "text")


@pytest.mark.parametrize(("preference", "action"), [("code", "print('</think>')"), ("box", "2")])
def test_an_action_is_read_after_the_reasoning(preference: str, action: str):
    text = "<think>```\n0\n``` \\boxed{1}</think>\\boxed{2}\n```\nprint('</think>')\n```"
    assert content(preference, text) == (action, True)


def test_kept_reasoning_is_handed_over_as_that_which_was_split_off():
    kept = extract_action({"role": "assistant", "content": "<think>hm</think>\n\ngo"}, "text")
    assert kept.message == {"role": "assistant", "content": "go", "reasoning_content": "hm"}


def test_an_answer_whose_reasoning_was_split_off_may_name_the_marks():
    message = {"role": "assistant", "content": "print('</think>')", "reasoning_content": "hm"}
    assert extract_action(message, "text").message == message


def test_an_answer_that_calls_tools_is_an_action_as_it_is():
    reply = {"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]}
    assert extract_action(reply, "code") == extract_action(reply, "text")


def test_what_else_an_answer_holds_stays():
    action = extract_action({"role": "assistant", "content": r"\boxed{1}", "reasoning_content": "hm"}, "box")
    assert action.message == {"role": "assistant", "content": "1", "reasoning_content": "hm"}
