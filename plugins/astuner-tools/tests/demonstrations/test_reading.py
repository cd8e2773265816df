from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from astuner.contract.errors import DataError, UsageError
from astuner_tools.demonstrations.reading import read_demonstrations

USER = {"role": "user", "content": "2 + 2?"}
ANSWER = {"role": "assistant", "content": "4"}
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}


def write(path: Path, *rows: Any) -> Path:
    file = path / "demos.jsonl"
    file.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows), encoding="utf-8")
    return file


def call(name: str, arguments: str = '{"a": 1}') -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "1", "type": "function", "function": {"name": name, "arguments": arguments}}],
    }


def test_a_row_is_a_conversation_with_the_line_that_it_is_on(tmp_path: Path) -> None:
    file = write(tmp_path, {"messages": [USER, ANSWER]}, "", {"messages": [USER, call("add")], "tools": [TOOL]})
    found = read_demonstrations(file)
    assert found.problems == []
    assert [demonstration.line for demonstration in found.sound] == [1, 3]
    assert found.sound[0].messages == (USER, ANSWER)
    assert found.sound[1].tools == (TOOL,)


def test_answers_that_are_not_trained_may_be_any_that_a_prompt_may_hold(tmp_path: Path) -> None:
    shown = {**call("gone", "{"), "train": False}
    file = write(tmp_path, {"messages": [{**ANSWER, "train": False}, USER, shown, USER, ANSWER]})
    [found] = read_demonstrations(file).sound
    assert found.untrained == {0, 2}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"messages": [', "not JSON: Expecting value in column 15. Write one object per line"),
        ("[1]", "no 'messages' in this row: it is [1]"),
        ({"prompt": "x"}, "no 'messages' in this row: its keys are 'prompt'"),
        ({"messages": []}, "must be a list with at least one message"),
        ({"messages": [USER]}, "no message of the assistant (roles: user)"),
        ({"messages": [USER, {**ANSWER, "train": "no"}]}, "messages[1].train is 'no'; write true or false, without quotes"),
        ({"messages": [{**USER, "train": True}, ANSWER]}, "messages[0].train is true, but only what the assistant writes is"),
        ({"messages": [USER, {**ANSWER, "train": False}]}, 'every answer has "train": false, so nothing can be learnt from it'),
        ({"messages": [{"role": "bot", "content": "x"}, ANSWER]}, "messages[0].role is 'bot'; known roles: system, developer"),
        ({"messages": [ANSWER]}, "messages[0] is the assistant's, but an answer needs a prompt"),
        ({"messages": [USER, {"role": "assistant", "content": ""}]}, "messages[1] of the assistant is empty"),
        (
            {"messages": [USER, call("ad")], "tools": [TOOL]},
            "calls 'ad', but the tools of the row are 'add'. Did you mean 'add'?",
        ),
        ({"messages": [USER, call("add")]}, "calls 'add', but the tools of the row are none. Add it to the row's 'tools'"),
        ({"messages": [USER, call("add", "1, 2")], "tools": [TOOL]}, "arguments is '1, 2', which is not a JSON object"),
        ({"messages": [USER, ANSWER], "tools": ["add"]}, "tools[0] is 'add'; write each tool as"),
        ({"messages": [USER, ANSWER], "tools": "add"}, "'tools' is 'add', but must be a list"),
    ],
)
def test_a_wrong_row_is_named_with_its_value_and_a_remedy(tmp_path: Path, row: Any, message: str) -> None:
    found = read_demonstrations(write(tmp_path, {"messages": [USER, ANSWER]}, row))
    assert len(found.sound) == 1
    [problem] = found.problems
    assert problem.line == 2
    assert message in str(problem)


def test_all_wrong_rows_are_named_at_once(tmp_path: Path) -> None:
    found = read_demonstrations(write(tmp_path, "{", {"messages": [USER]}, {"messages": [USER, ANSWER]}, "1"))
    assert [problem.line for problem in found.problems] == [1, 2, 4]


def test_a_file_without_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no demonstration in it"):
        read_demonstrations(write(tmp_path, "", ""))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="it cannot be read: No such file"):
        read_demonstrations(tmp_path / "none.jsonl")
