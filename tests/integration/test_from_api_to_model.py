"""From a large model behind an API to a small one of one's own: played, learnt from, and evaluated next to each other."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from harness import Cli

from astuner_devkit.scripted_api import Reply, ScriptedApi, scripted_api

TASKS = 12


def calculate(body: Mapping[str, Any], number: int) -> Reply:
    """Ask the calculator, and then answer with what it said."""
    last = body["messages"][-1]
    if last["role"] == "tool":
        message: dict[str, Any] = {"role": "assistant", "content": f"The answer is \\boxed{{{last['content']}}}"}
    else:
        found = re.search(r"\d+ [-+*] \d+", last["content"])
        assert found is not None
        arguments = json.dumps({"expression": found[0].replace(" ", "")})
        call = {"id": f"call_{number}", "type": "function", "function": {"name": "calculator", "arguments": arguments}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    usage = {"prompt_tokens": 40, "completion_tokens": 9, "total_tokens": 49}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if "tool_calls" in message else "stop"}
    return Reply(200, {"id": "x", "object": "chat.completion", "choices": [choice], "usage": usage})


@pytest.fixture
def api() -> Iterator[ScriptedApi]:
    with scripted_api(calculate) as served:
        yield served


@pytest.fixture
def options() -> list[str]:
    """What makes everything small, as `--set` takes it."""
    items = (f"task_reader.dataset_file.validation.limit={TASKS}", "trainer_common.logger=[console]")
    return [part for item in items for part in ("--set", item)]


def test_an_api_teaches_a_tiny_model_in_two_commands(cli: Cli, project: Path, api: ScriptedApi, options: list[str]) -> None:
    engine = f"rollout.openai={{base_url: '{api.url}', model: big, api_key_env: MY_KEY}}"
    env = {"MY_KEY": "sk-not-to-be-kept"}
    few = ("--set", f"debug.debug_first_n_tasks={TASKS}", "--set", "rollout.num_repeat=1")
    shown = ("--backbone", "debug", "--set", "rollout.name=openai", "--set", engine, *few)
    played = cli("run", "--conf", "tune.yaml", *shown, *options, cwd=project, env=env)
    assert played.returncode == 0, played.stderr
    assert set(api.keys) == {"sk-not-to-be-kept"}

    learn = ("--from-run", "calculator.debug", "--min-reward", "1", "--tiny", "--epochs", "4", "--out", "small")
    learnt = cli("warm-start", "--conf", "tune.yaml", "--backbone", "local", *learn, *options, cwd=project)
    assert learnt.returncode == 0, learnt.stderr
    assert f"calculator.debug: {TASKS} demonstrations of {TASKS} tasks from {TASKS} episodes" in learnt.stderr
    assert "playing the validation tasks, before" not in learnt.stderr
    assert (project / "small" / "model.safetensors").is_file()
    assert b"sk-not-to-be-kept" not in b"".join(path.read_bytes() for path in project.rglob("*") if path.is_file())


def test_checkpoints_and_an_api_are_evaluated_on_the_same_tasks(
    cli: Cli, project: Path, api: ScriptedApi, options: list[str]
) -> None:
    short = ("--set", "trainer_common.total_training_steps=2", "--set", "trainer_common.save_freq=1")
    small = (
        "--set",
        "data.train_batch_size=2",
        "--set",
        "rollout.num_repeat=2",
        "--set",
        "trainer_common.val_before_train=false",
    )
    trained = cli("run", "--conf", "tune.yaml", *short, *small, *options, cwd=project)
    assert trained.returncode == 0, trained.stderr

    sampled = ("--set", "rollout.val_kwargs={do_sample: true, temperature: 1.0}", "--set", "trainer_common.val_pass_n=2")
    players = ("--checkpoint", "base", "--checkpoint", "1", "--checkpoint", "last", "--api", f"big@{api.url}")
    command = ("eval", "--conf", "tune.yaml", *players, *sampled, *options, "--markdown", "page.md", "--json")
    ended = cli(*command, cwd=project)
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert [one["name"] for one in found["contestants"]] == ["base", "step_1", "last (step_2)", "big"]
    assert {one["tasks"] for one in found["standings"]} == {TASKS}
    assert {one["episodes"] for one in found["standings"]} == {2 * TASKS}
    base, *_, big = found["contestants"]
    assert (big["cost"]["calls"], big["cost"]["prompt_tokens"]) == (4 * TASKS, 160 * TASKS)
    assert base["cost"]["generated_tokens"] > 0
    difference = found["differences"][-1]
    assert (difference["contestant"], difference["worse"], difference["decided"]) == ("big", 0, True)
    assert found["standings"][-1]["success"]["value"] == 1.0
    assert (project / "page.md").read_text().startswith("# Evaluation\n")

    # The weights and the seeds decide, not who else plays.
    alone = cli("eval", "--conf", "tune.yaml", "--checkpoint", "1", *sampled, *options, "--json", cwd=project)
    assert alone.returncode == 0, alone.stderr
    assert json.loads(alone.stdout)["contestants"][0]["tasks"] == found["contestants"][1]["tasks"]
