"""opencode as npm serves it, with a sub-agent and the title of its session, each a target of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_stage import AgentStage, Finished, check_training, open_stage, write_tool_call
from main_line import SUBTASK, answer, check_main_line, make_folders, name_roots

TASK = "Have a sub-agent write hello into a file called hello.txt"


async def run_opencode(command: Path, stage: AgentStage, folder: Path) -> Finished:
    home, work = make_folders(folder)
    models = {name: {"name": name} for name in ("astuner", "astuner@side", "astuner@sub")}
    options = {"baseURL": stage.address, "apiKey": stage.key}
    configuration: dict[str, Any] = {
        "autoupdate": False,
        "share": "disabled",
        "permission": {"*": "allow"},
        "provider": {"tuned": {"npm": "@ai-sdk/openai-compatible", "name": "tuned", "options": options, "models": models}},
        "model": "tuned/astuner",
        "small_model": "tuned/astuner@side",
        "agent": {"general": {"model": "tuned/astuner@sub"}},
    }
    (folder / "opencode.json").write_text(json.dumps(configuration), encoding="utf-8")
    variables = {
        "OPENCODE_CONFIG": str(folder / "opencode.json"),
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    }
    return await stage.run([command, "run", TASK], home, work, variables)


@pytest.mark.asyncio
@pytest.mark.parametrize("targets", [None, ["agent"]])
async def test_opencode_writes_its_file_and_trains_its_targets(
    program: Callable[[str], Path], tmp_path: Path, targets: list[str] | None
) -> None:
    path = str(tmp_path / "work/hello.txt")
    delegate = write_tool_call("task", {"description": "write", "prompt": SUBTASK, "subagent_type": "general"})
    main = [f"I delegate.\n{delegate}", write_tool_call("read", {"filePath": path}), "It is written."]
    sub = [write_tool_call("write", {"filePath": path, "content": "hello"}), "Done."]
    async with open_stage(answer(main, sub), targets) as stage:
        finished = await run_opencode(program("opencode"), stage, tmp_path)
        calls = stage.recorder.calls
    assert finished.status == 0, finished.output
    assert (tmp_path / "work/hello.txt").read_text() == "hello", finished.output
    names = name_roots(calls)
    found = {name: {calls[index].target_tag for index in names if names[index] == name} for name in set(names.values())}
    assert found == {"main line": {"agent"}, "side call": {"side"}, "side conversation": {"sub"}}
    assert len(check_main_line(calls)) == len(main)
    wanted = [call for call in calls if targets is None or call.target_tag in targets]
    assert check_training(calls) == sum(len(call.output_ids) for call in wanted) > 50
