"""Codex as npm serves it, against the gateway: it writes its file, and every token that the model sampled is trained."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from agent_stage import AgentStage, Finished, check_training, continues, open_stage, write_tool_call

TASK = "Write hello into a file called hello.txt"

CONFIGURATION = """
model = "{model}"
model_provider = "tuned"
approval_policy = "never"
sandbox_mode = "danger-full-access"

[model_providers.tuned]
name = "tuned"
base_url = "{address}"
env_key = "TUNED_KEY"
wire_api = "responses"
"""

PATCH = "*** Begin Patch\n*** Add File: hello.txt\n+hello\n*** End Patch\n"


async def run_codex(command: Path, stage: AgentStage, folder: Path, model: str) -> Finished:
    """Run Codex on the task in `folder/work`. A model that it knows by name gets other tools than an unknown one."""
    home, work = folder / "home", folder / "work"
    work.mkdir()
    (home / ".codex").mkdir(parents=True)
    (home / ".codex/config.toml").write_text(CONFIGURATION.format(model=model, address=stage.address), encoding="utf-8")
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
