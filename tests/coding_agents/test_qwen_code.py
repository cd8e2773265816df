"""Qwen Code as npm serves it, with a sub-agent that is a target of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from agent_stage import AgentStage, Finished, check_training, open_stage, write_tool_call
from main_line import SUBTASK, answer, check_main_line, make_folders

TASK = "Have a sub-agent write hello into a file called hello.txt"

SETTINGS = {
    "security": {"auth": {"selectedType": "openai"}},
    "model": {"name": "astuner"},
    "memory": {"enableManagedAutoMemory": False, "enableManagedAutoDream": False},
}
"""Notes that it takes in the background would be calls that begin while it ends."""

WRITER = """---
name: writer
description: Writes files.
model: astuner@sub
tools:
  - write_file
---
Write what you are asked to.
"""


async def run_qwen_code(command: Path, stage: AgentStage, folder: Path) -> Finished:
    home, work = make_folders(folder)
    (home / ".qwen/agents").mkdir(parents=True)
    (home / ".qwen/settings.json").write_text(json.dumps(SETTINGS), encoding="utf-8")
    (home / ".qwen/agents/writer.md").write_text(WRITER, encoding="utf-8")
    variables = {"OPENAI_BASE_URL": stage.address, "OPENAI_API_KEY": stage.key, "OPENAI_MODEL": "astuner"}
    return await stage.run([command, "-p", TASK, "--yolo"], home, work, variables)


@pytest.mark.asyncio
@pytest.mark.parametrize("targets", [None, ["agent"]])
async def test_qwen_code_writes_its_file_and_trains_its_targets(
    program: Callable[[str], Path], tmp_path: Path, targets: list[str] | None
) -> None:
    path = str(tmp_path / "work/hello.txt")
    delegate = write_tool_call("agent", {"description": "write", "prompt": SUBTASK, "subagent_type": "writer"})
    main = [f"I delegate.\n{delegate}", write_tool_call("read_file", {"file_path": path}), "It is written."]
    sub = [write_tool_call("write_file", {"file_path": path, "content": "hello"}), "Done."]
    async with open_stage(answer(main, sub), targets) as stage:
        finished = await run_qwen_code(program("qwen_code"), stage, tmp_path)
        calls = stage.recorder.calls
    assert finished.status == 0, finished.output
    assert (tmp_path / "work/hello.txt").read_text() == "hello", finished.output
    # A sub-agent plays while the main line goes on, which hears of its end.
    line = check_main_line(calls)
    assert len(line) >= len(main)
    assert [(call.index in line) for call in calls] == [call.target_tag == "agent" for call in calls]
    assert [call.target_tag for call in calls].count("sub") == len(sub)
    wanted = [call for call in calls if targets is None or call.target_tag in targets]
    assert check_training(calls) == sum(len(call.output_ids) for call in wanted) > 50
