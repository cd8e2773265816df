"""Gemini CLI as npm serves it, over Gemini's own API."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from agent_stage import AgentStage, Finished, check_training, open_stage, write_tool_call
from main_line import THOUGHT, answer, check_main_line, make_folders

TASK = "Write hello into a file called hello.txt"

SETTINGS = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": False}}


async def run_gemini_cli(command: Path, stage: AgentStage, folder: Path) -> Finished:
    home, work = make_folders(folder)
    (home / ".gemini").mkdir()
    (home / ".gemini/settings.json").write_text(json.dumps(SETTINGS), encoding="utf-8")
    variables = {"GOOGLE_GEMINI_BASE_URL": stage.address.removesuffix("/v1"), "GEMINI_API_KEY": stage.key}
    return await stage.run([command, "-p", TASK, "-m", "astuner", "--yolo", "--skip-trust"], home, work, variables)


@pytest.mark.asyncio
async def test_gemini_cli_writes_its_file_and_every_token_is_trained(program: Callable[[str], Path], tmp_path: Path) -> None:
    path = str(tmp_path / "work/hello.txt")
    main = [
        f"{THOUGHT}I write.\n{write_tool_call('write_file', {'file_path': path, 'content': 'hello'})}",
        f"{THOUGHT}{write_tool_call('read_file', {'file_path': path})}",
        "It is written.",
    ]
    async with open_stage(answer(main)) as stage:
        finished = await run_gemini_cli(program("gemini_cli"), stage, tmp_path)
        calls = stage.recorder.calls
    assert finished.status == 0, finished.output
    assert (tmp_path / "work/hello.txt").read_text() == "hello", finished.output
    assert check_main_line(calls) == list(range(len(main)))
    assert check_training(calls) == sum(len(call.output_ids) for call in calls) > 50
