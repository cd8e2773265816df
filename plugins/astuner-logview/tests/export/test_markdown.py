"""Markdown for issues: what a model wrote stays inside its block."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from astuner_logview.export.markdown import LONGEST, write_episode, write_group
from astuner_tools.markdown_text import LONGEST_TEXT, code, fence

TEXTS = st.text(st.sampled_from("`~|\n\r\t a#*<>&[]()!\\\x1b\x00-é😀")) | st.text()
ROW: dict[str, Any] = {
    "repeat": 0,
    "completed": True,
    "reward": 0.5,
    "success": False,
    "advantage": -0.25,
    "turns": 1,
    "tokens": 9,
}


def make_turn(text: str) -> dict[str, Any]:
    reply = {"role": "assistant", "content": text, "reasoning": None, "tool_calls": []}
    return {"call": 0, "agent": "solver", "messages": [{**reply, "role": "user"}], "reply": reply, "finish_reason": "stop"}


def make_group(*texts: str) -> dict[str, Any]:
    more = {"components": {"a|b": 1.0}, "rationale": "Good.", "verdict_reason": None, "verdict_detail": None, "failure": None}
    siblings = [{**ROW, **more, "repeat": repeat, "turns_shown": [make_turn(text)]} for repeat, text in enumerate(texts)]
    return {"task": "t`1", "step": 3, "split": "train", "siblings": siblings}


@given(TEXTS)
def test_a_block_is_one_block_whatever_is_in_it(text: str) -> None:
    tokens = MarkdownIt("commonmark").parse(f"before\n\n{fence(text)}\n\nafter\n")
    assert [token.type for token in tokens if token.type == "fence"] == ["fence"]
    assert [token.content for token in tokens if token.type == "inline"] == ["before", "after"]


@given(TEXTS)
def test_a_span_is_one_span_whatever_is_in_it(text: str) -> None:
    (paragraph,) = [token for token in MarkdownIt("commonmark").parse(f"a {code(text)} b") if token.type == "inline"]
    assert [child.type for child in paragraph.children or []] == ["text", "code_inline", "text"]


def test_the_parts_of_a_group_are_there_in_order() -> None:
    text = write_group("my-run", make_group("It is 4.", "It is 5."))
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert headings == ["# Group ``t`1``, step 3 of train", "## Repeat 0: reward 0.5", "## Repeat 1: reward 0.5"]
    assert "| 0 | 0.5 | -0.25 | 1 | 9 | `a\\|b` 1 |" in text
    assert "The judge:\n\n```\nGood.\n```" in text
    assert "**0 · assistant `solver`**\n\n```\nIt is 5.\n```" in text


def test_a_long_text_loses_its_middle_and_a_long_file_its_end() -> None:
    text = write_group("my-run", make_group(*["begin " + "x" * 10 * LONGEST_TEXT + " end"] * 100))
    assert len(text) <= LONGEST
    assert re.search(r"begin x+\n\[\d+ characters are left out\]\nx+ end\n", text)
    assert text.endswith("further parts are left out; an export as `.html` has them.\n")


def test_a_failed_episode_shows_why() -> None:
    failure = {"reason": "workflow_error", "detail": "KeyError: 'box'", "traceback": "Traceback …\n", "attempt": 1}
    call = {"turn": make_turn("hm")}
    answer = {
        **ROW,
        "id": "train/3/t/0",
        "completed": False,
        "reward": None,
        "reason": "workflow_error",
        "trained": 0,
        "verdict": {"reason": "failed_siblings", "detail": "of 4", "place": None, "traceback": None},
        "failures": [failure],
        "findings": [{"detector": "nonsense", "call": 0, "evidence": "hm`"}],
        "calls": [call],
    }
    text = write_episode("my-run", answer)
    assert text.startswith("# Episode `train/3/t/0`: failed (`workflow_error`)\n")
    assert "The judge:\n\n```\nfailed_siblings: of 4\n```" in text
    assert "It failed: `workflow_error`\n\n```\nKeyError: 'box': Traceback …\n```" in text
    assert "* `nonsense`: `` hm` ``" in text
