"""The agents of the page on structured output play as they are printed, and every token is trained."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from tutorials import AGENTS, kept_whole

from astuner import Task, WorkflowTask

PAGE = (AGENTS / "agentscope" / "structured_output.md").read_text(encoding="utf-8")
OF_2, OF_1 = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)

WRONG = '<tool_call>\n{"name": "TOOL", "arguments": {"vote": 3}}\n</tool_call>'
RIGHT = '<tool_call>\n{"name": "TOOL", "arguments": {"player": "player 3"}}\n</tool_call>'


@pytest.mark.parametrize(
    ("code", "tool"),
    [
        pytest.param(OF_1, "generate_response", marks=pytest.mark.agentscope1, id="agentscope 1"),
        pytest.param(OF_2, "GenerateStructuredOutput", id="agentscope 2"),
    ],
)
@pytest.mark.asyncio
async def test_the_agent_of_the_page_votes_and_is_trained(
    playing: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, code: str, tool: str
):
    module = ModuleType("structured_page")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(code, "structured_output.md", "exec"), module.__dict__)
    said = (WRONG.replace("TOOL", tool), RIGHT.replace("TOOL", tool), "I vote for player 3.")
    async with playing(said) as stage:
        output = await module.Voter().execute(WorkflowTask(Task("Who is the wolf?")), stage.recorder.tuner)
        calls = stage.recorder.calls
    assert output.metadata["final_answer"] == "player 3"
    assert len(calls) >= 2
    assert {call.untrained for call in calls} == {None}
    assert kept_whole(calls) == [True] * (len(calls) - 1)
