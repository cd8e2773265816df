"""Claude Code as npm serves it, with a sub-agent and the title of its session, each a target of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from agent_stage import AgentStage, Finished, check_training, open_stage, write_tool_call
from main_line import SUBTASK, THOUGHT, answer, check_main_line, make_folders, name_roots

TASK = "Have a sub-agent write hello into a file called hello.txt"


async def run_claude_code(command: Path, stage: AgentStage, folder: Path) -> Finished:
    home, work = make_folders(folder)
    variables = {
        "ANTHROPIC_BASE_URL": stage.address.removesuffix("/v1"),
        "ANTHROPIC_API_KEY": stage.key,
        "ANTHROPIC_SMALL_FAST_MODEL": "astuner@side",
        "CLAUDE_CODE_SUBAGENT_MODEL": "astuner@sub",
        # Permissions are not asked for as root otherwise.
        "IS_SANDBOX": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
    }
    arguments = [command, "-p", TASK, "--model", "astuner", "--dangerously-skip-permissions"]
    return await stage.run(arguments, home, work, variables)


@pytest.mark.asyncio
@pytest.mark.parametrize("targets", [None, ["agent"], ["agent", "sub"]])
async def test_claude_code_writes_its_file_and_trains_its_targets(
    program: Callable[[str], Path], tmp_path: Path, targets: list[str] | None
) -> None:
    path = str(tmp_path / "work/hello.txt")
    delegate = write_tool_call("Agent", {"description": "write", "prompt": SUBTASK, "subagent_type": "general-purpose"})
    main = [f"{THOUGHT}I delegate.\n{delegate}", f"{THOUGHT}{write_tool_call('Read', {'file_path': path})}", "It is written."]
    sub = [f"{THOUGHT}{write_tool_call('Write', {'file_path': path, 'content': 'hello'})}", "Done."]
    async with open_stage(answer(main, sub), targets) as stage:
        finished = await run_claude_code(program("claude_code"), stage, tmp_path)
        calls = stage.recorder.calls
    assert finished.status == 0, finished.output
    assert (tmp_path / "work/hello.txt").read_text() == "hello", finished.output
    names = name_roots(calls)
    found = {name: {calls[index].target_tag for index in names if names[index] == name} for name in set(names.values())}
    # A session without a terminal may have no title, and a sub-agent plays while the main line goes on.
    assert found.pop("side call", {"side"}) == {"side"}
    assert found == {"main line": {"agent"}, "side conversation": {"sub"}}
    assert len(check_main_line(calls)) >= len(main)
    wanted = [call for call in calls if targets is None or call.target_tag in targets]
    assert check_training(calls) == sum(len(call.output_ids) for call in wanted) > 50
    assert {call.untrained for call in calls if call not in wanted} <= {"frozen_agent"}
