"""The presets of the section `agent`: each starts its program so that it plays through the gateway, with the task alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from agent_stage import CONTEXT, LONGEST_S, check_training, continues, write_tool_call

from astuner_devkit.run_in_process import PlayedRun

TASK = "Write hello into a file called hello.txt"

ANSWERS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "gemini_cli": ("write_file", {"file_path": "hello.txt", "content": "hello"}),
    "pi": ("write", {"path": "hello.txt", "content": "hello"}),
}
"""How a model writes the file: the tool and its arguments."""


@pytest.mark.parametrize("preset", ANSWERS)
def test_a_preset_writes_its_file_and_every_token_is_trained(
    preset: str, program: Callable[[str], Path], run: Callable[..., PlayedRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{program(preset).parent}{os.pathsep}{os.environ['PATH']}")
    tool, arguments = ANSWERS[preset]
    played = run(
        workflow="astuner_agents:Command",
        tasks=[{"main_query": TASK, "answer": "It is written."}],
        replies=[write_tool_call(tool, arguments), "It is written."],
        settings={
            "agent": {"preset": preset, "collect": ["hello.txt"], "timeout_s": LONGEST_S},
            "rollout": {"max_model_len": CONTEXT, "max_response_length_in_one_turn": 2000},
            "data": {"max_prompt_length": CONTEXT - 20_000, "max_response_length": 20_000},
            "task_judge": {"judge_protocol": "astuner_devkit.judges:ExactAnswer"},
        },
    )
    [episode] = played.episodes
    assert episode.output is not None, episode.failures
    said = episode.output.metadata
    assert said["exit_code"] == 0, said
    assert said["files"] == {"hello.txt": "hello"}, said
    assert said["final_answer"].endswith("It is written.")
    assert len(episode.calls) == 2
    assert [later for earlier, later in pairwise(range(len(episode.calls))) if not continues(episode.calls, later, earlier)] == []
    assert check_training(episode.calls) == sum(len(call.output_ids) for call in episode.calls)
