"""Codex as npm serves it, against the gateway: it writes its file, and every token that the model sampled is trained."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from agent_stage import AgentStage, Finished, check_training, continues, open_stage, write_tool_call

from astuner.contract.schema import Call

TASK = "Write hello into a file called hello.txt"

CONFIGURATION = """
check_for_update_on_startup = false
model = "{model}"
model_provider = "tuned"
approval_policy = "never"
sandbox_mode = "danger-full-access"

[model_providers.tuned]
name = "tuned"
base_url = "{address}"
env_key = "TUNED_KEY"
wire_api = "responses"

[analytics]
enabled = false
"""

PATCH = "*** Begin Patch\n*** Add File: hello.txt\n+hello\n*** End Patch\n"


async def run_codex(command: Path, stage: AgentStage, folder: Path, model: str = "tuned", settings: str = "") -> Finished:
    """Run Codex on the task in `folder/work`. A model that it knows by name gets other tools than an unknown one.

    `settings` are lines of its configuration.
    """
    home, work = folder / "home", folder / "work"
    work.mkdir()
    (home / ".codex").mkdir(parents=True)
    configuration = settings + CONFIGURATION.format(model=model, address=stage.address)
    (home / ".codex/config.toml").write_text(configuration, encoding="utf-8")
    arguments = [command, "exec", "--skip-git-repo-check", TASK]
    return await stage.run(arguments, home, work, {"TUNED_KEY": stage.key, "CODEX_HOME": str(home / ".codex")})


def say(*answers: str) -> Callable[[str], str]:
    """Answer by the number of tool results in the prompt."""
    return lambda prompt: answers[min(prompt.count("<tool_response>"), len(answers) - 1)]


SCRIPT = "text(await tools.exec_command({cmd: 'echo hello > hello.txt'}))"

THOUGHT = "<think>\nA file is wanted.\n</think>\n\n"

WAYS = {
    # A tool of type function, and one in a namespace, which Codex answers with what it says of its agents.
    "tuned": [
        f"{THOUGHT}I look first.\n{write_tool_call('multi_agent_v1__wait_agent', {'targets': []})}",
        f"{THOUGHT}{write_tool_call('exec_command', {'cmd': 'echo hello > hello.txt'})}",
        f"{THOUGHT}It is written.",
    ],
    # A custom tool with a grammar; first called with arguments that are no text, then with a text that is no patch.
    "gpt-5.5": [
        write_tool_call("apply_patch", {"patch": PATCH}),
        write_tool_call("apply_patch", {"input": "hello"}),
        write_tool_call("tool_search", {"query": "agent"}),
        f"{THOUGHT}{write_tool_call('apply_patch', {'input': PATCH})}",
        "It is written.",
    ],
    # Tools of an item of type additional_tools, in a namespace.
    "gpt-6.1-sol": [
        f"{THOUGHT}{write_tool_call('functions__exec', {'input': SCRIPT})}",
        "It is written.",
    ],
}


@pytest.mark.asyncio
@pytest.mark.parametrize("model", WAYS)
async def test_codex_writes_its_file_and_every_token_is_trained(
    program: Callable[[str], Path], tmp_path: Path, model: str
) -> None:
    async with open_stage(say(*WAYS[model])) as stage:
        finished = await run_codex(program("codex"), stage, tmp_path, model)
        calls, notices = stage.recorder.calls, stage.recorder.notices
    assert finished.status == 0, finished.output
    assert (tmp_path / "work/hello.txt").read_text() == "hello\n", finished.output
    assert len(calls) == len(WAYS[model]), finished.output
    assert [index for index in range(1, len(calls)) if not continues(calls, index, index - 1)] == []
    assert check_training(calls) == sum(len(call.output_ids) for call in calls) > 50
    assert len([text for text in notices if "web_search" in text]) == (model != "gpt-6.1-sol")


WRITE = write_tool_call("exec_command", {"cmd": "echo hello > hello.txt"})


@pytest.mark.asyncio
async def test_a_sub_agent_is_a_branch_of_its_own(program: Callable[[str], Path], tmp_path: Path) -> None:
    def reply(prompt: str) -> str:
        if TASK not in prompt:
            return WRITE if "<tool_response>" not in prompt else "I wrote it."
        started = re.search(r"agent_id[^0-9a-f]+([0-9a-f-]{36})", prompt)
        if started is None:
            return write_tool_call("multi_agent_v1__spawn_agent", {"message": "Please write it."})
        waited = prompt.count("<tool_response>") > 1
        return "It is written." if waited else write_tool_call("multi_agent_v1__wait_agent", {"targets": [started[1]]})

    async with open_stage(reply) as stage:
        finished = await run_codex(program("codex"), stage, tmp_path)
        calls = stage.recorder.calls
    assert finished.status == 0, finished.output
    assert (tmp_path / "work/hello.txt").read_text() == "hello\n", finished.output
    assert check_training(calls) == sum(len(call.output_ids) for call in calls)
    lines = [[index for index, call in enumerate(calls) if begins_with(calls, index, start)] for start in find_starts(calls)]
    assert sorted(map(len, lines)) == [2, 3]
    for line in lines:
        assert [place for place in range(1, len(line)) if not continues(calls, line[place], line[place - 1])] == []


def find_starts(calls: Sequence[Call]) -> list[int]:
    return [index for index, call in enumerate(calls) if call.parent is None]


def begins_with(calls: Sequence[Call], index: int, start: int) -> bool:
    """Whether a call is on a path from the call `start`."""
    while calls[index].parent is not None:
        index = calls[index].parent
    return index == start


@pytest.mark.asyncio
async def test_a_compaction_is_a_branch_of_its_own_and_so_is_what_follows(program: Callable[[str], Path], tmp_path: Path) -> None:
    def reply(prompt: str) -> str:
        if "Another language model" in prompt:
            return "It is written."
        if "CONTEXT CHECKPOINT COMPACTION" in prompt:
            return "The file is written."
        return WRITE

    async with open_stage(reply) as stage:
        # Every conversation is longer.
        finished = await run_codex(program("codex"), stage, tmp_path, settings="model_auto_compact_token_limit = 1000\n")
        calls = stage.recorder.calls
    assert finished.status == 0, finished.output
    assert (tmp_path / "work/hello.txt").read_text() == "hello\n", finished.output
    # Codex offers no tools when it asks for the summary, so that prompt is another one from its beginning.
    assert [bool(call.tools) for call in calls][:2] == [True, False]
    assert len(calls) == 3
    assert not any(continues(calls, index, earlier) for index in range(3) for earlier in range(index))
    assert check_training(calls) == sum(len(call.output_ids) for call in calls)
