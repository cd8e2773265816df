"""Demonstrations from played episodes: what was prompted, trained only where the model sampled it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from astuner.contract.errors import UsageError
from astuner.contract.schema import Episode
from astuner.contract.token_streams import prompt_length, stream_ids
from astuner.model.rendering import load_renderer
from astuner_devkit.command_line import CommandResult
from astuner_devkit.episodes import episode
from astuner_devkit.run_in_process import PlayedRun
from astuner_devkit.scripted_api import scripted_api
from astuner_tools.demonstrations.played import EpisodeChoice, collect_demonstrations, make_rows, read_episodes
from astuner_tools.demonstrations.reading import check_row

AGENTS = """
import json

from astuner import Workflow, WorkflowOutput


class Talk(Workflow):
    async def execute(self, workflow_task, tuner):
        client, messages = tuner.as_raw_openai_sdk_client(), [{"role": "user", "content": workflow_task.task.main_query}]
        for question in ("and then?", "so?", None):
            reply = (await client.chat.completions.create(model="m", messages=messages)).choices[0].message
            messages += self.rewrite(messages, reply)
            messages.append({"role": "user", "content": question})
        return WorkflowOutput(reward=1.0, is_success=True, metadata={"final_answer": reply.content})

    def rewrite(self, messages, reply):
        return [{"role": "assistant", "content": reply.content}]


class Rewrites(Talk):
    def rewrite(self, messages, reply):
        return [{"role": "assistant", "content": f"I said: {reply.content}"}]


class Forgets(Talk):
    def rewrite(self, messages, reply):
        summary = {"role": "user", "content": f"We had {len(messages)} messages."}
        messages.clear()
        return [summary]


class Two(Workflow):
    trainable_targets = ["solver"]

    async def execute(self, workflow_task, tuner):
        question = [{"role": "user", "content": workflow_task.task.main_query}]
        for name in ("critic", "solver"):
            api = tuner.as_oai_baseurl_apikey(agent_name=name, target_tag=name)
            client = tuner.as_raw_openai_sdk_client(agent_name=name, target_tag=name)
            await client.chat.completions.create(model=api.model, messages=question)
        return WorkflowOutput(reward=1.0, is_success=True)
"""
REPLIES = ["one", "two", "three"]


@pytest.fixture
def play(run: Callable[..., PlayedRun], tmp_path: Path) -> Callable[..., Episode]:
    (tmp_path / "agents.py").write_text(AGENTS)

    def start(workflow: str, **more: Any) -> Episode:
        [found] = run(workflow=f"./agents.py:{workflow}", replies=REPLIES, **more).episodes
        return found

    return start


def show(row: dict[str, Any]) -> list[str]:
    """Return the texts of a row; those that are trained in capitals."""
    trained = [one["role"] == "assistant" and one.get("train", True) for one in row["messages"]]
    return [one["content"].upper() if learnt else one["content"] for one, learnt in zip(row["messages"], trained, strict=True)]


def test_a_conversation_that_grew_is_one_row(play: Any) -> None:
    [row] = make_rows(play("Talk"))
    assert show(row) == ["What is 2 + 2?", "ONE", "and then?", "TWO", "so?", "THREE"]
    assert "tools" not in row


def test_a_rewritten_history_is_read_and_each_sampled_answer_is_trained_once(play: Any) -> None:
    assert [show(row) for row in make_rows(play("Rewrites"))] == [
        ["What is 2 + 2?", "ONE"],
        ["What is 2 + 2?", "I said: one", "and then?", "TWO"],
        ["What is 2 + 2?", "I said: one", "and then?", "I said: two", "so?", "THREE"],
    ]
    assert [show(row) for row in make_rows(play("Forgets"))] == [
        ["What is 2 + 2?", "ONE"],
        ["We had 1 messages.", "and then?", "TWO"],
        ["We had 2 messages.", "so?", "THREE"],
    ]


@pytest.mark.parametrize("workflow", ["Talk", "Rewrites", "Forgets"])
def test_what_is_trained_has_the_prompt_that_it_was_sampled_under(play: Any, tmp_path: Path, workflow: str) -> None:
    played = play(workflow)
    renderer = load_renderer(str(tmp_path / "model"))
    sampled = {
        renderer.decode(stream_ids(played.calls, call.index)[: prompt_length(call)].tolist()): call.reply["content"]
        for call in played.calls
    }
    trained = {}
    for row in make_rows(played):
        messages, tools, untrained = check_row(row)
        for place, message in enumerate(messages):
            if message["role"] == "assistant" and place not in untrained:
                trained[renderer.render(messages[:place], tools, generate=True, kwargs={})] = message["content"]
    assert trained == sampled
    assert len(trained) == 3


def test_an_agent_that_is_not_trained_is_not_learnt_from(play: Any) -> None:
    [row] = make_rows(play("Two"))
    assert show(row) == ["What is 2 + 2?", "ONE"]


def test_the_agents_of_an_api_that_are_not_trained_are_not_learnt_from_either(play: Any) -> None:
    with scripted_api(lambda body, number: f"answer {number}") as api:
        options = {"base_url": api.url, "model": "big"}
        [row] = make_rows(play("Two", settings={"rollout": {"name": "openai", "openai": options}}))
    assert show(row) == ["What is 2 + 2?", "ANSWER 1"]


@pytest.mark.parametrize(
    "change",
    [
        {"finish_reason": "length"},
        {"untrained": "aborted"},
        {"reply": {"role": "assistant", "content": ""}},
        {"reply": {"role": "assistant", "content": None, "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "unknown", "arguments": "{}"}}]}},
        {"messages": ({"role": "user", "content": "π?"}, {"role": "assistant", "content": "It is"})},
    ],
    ids=["cut", "aborted", "empty", "unknown tool", "begun by the agent"],
)  # fmt: skip
def test_an_answer_that_should_not_be_copied_is_not_learnt(change: dict[str, Any]) -> None:
    made = episode()
    assert len(list(make_rows(made))) == 1
    assert list(make_rows(evolve(made, calls=(evolve(made.calls[0], **change),)))) == []


def test_equal_conversations_are_kept_once_and_the_rest_is_counted() -> None:
    def call_tool(identity: str) -> Episode:
        made = episode()
        calls = [{"id": identity, "type": "function", "function": {"name": "f", "arguments": "{}"}}]
        reply = {"role": "assistant", "content": None, "tool_calls": calls}
        return evolve(made, calls=(evolve(made.calls[0], reply=reply),))

    failed = evolve(episode(), output=None)
    found = collect_demonstrations([episode(0), episode(1), call_tool("a1"), call_tool("b2"), failed])
    assert len(found.rows) == 2
    assert found.describe() == (
        "2 demonstrations of 1 tasks from 5 episodes (2 equal to earlier ones are left out; 1 episodes failed or have no answer "
        "to learn)"
    )


@pytest.fixture
def stored(write_run: Any) -> Path:
    made = [episode(0, 0.25), episode(1, 1.0), episode(0, 1.0, task="u"), episode(0, 1.0, task="v", split="validation")]
    path: Path = write_run("a", episodes=made)
    return path


@pytest.mark.usefixtures("stored")
def test_the_command_writes_a_file_that_a_warm_start_reads(cli: Callable[..., CommandResult], tmp_path: Path) -> None:
    ended = cli("episodes", "a", "--min-reward", "1", "--demos", "demos.jsonl")
    assert (ended.code, ended.out) == (0, "")
    assert "demos.jsonl: 1 demonstrations of 1 tasks from 2 episodes (1 equal to earlier ones are left out)" in ended.err
    [row] = [json.loads(line) for line in (tmp_path / "demos.jsonl").read_text().splitlines()]
    assert (row["episode"], row["task"], row["reward"]) == ("train/1/t/1", "t", 1.0)
    assert check_row(row)[0] == ({"role": "user", "content": "π?"}, {"role": "assistant", "content": "3"})
    again = cli("episodes", "a", "--demos", "demos.jsonl")
    assert (again.code, again.err) == (2, "error: --demos demos.jsonl: exists; name another file\n")
    none = cli("episodes", "a", "--min-reward", "2", "--demos", "more.jsonl")
    assert none.code == 2
    assert "--demos: none of the 0 selected episodes has an answer to learn" in none.err


def test_a_warm_start_reads_the_training_episodes_of_a_run_with_enough_reward(stored: Path) -> None:
    found, notes = read_episodes(EpisodeChoice(run=str(stored), min_reward=0.5))
    assert [one.name for one in found] == ["train/1/t/1"]
    assert notes == [f"{stored}: 1 demonstrations of 1 tasks from 2 episodes (1 equal to earlier ones are left out)"]


def test_a_run_without_a_good_enough_episode_says_what_the_best_was(cli: Any, stored: Path) -> None:
    with pytest.raises(UsageError, match=r"none of its 3 training episodes with a reward of 2 or more .* the highest is 1\."):
        read_episodes(EpisodeChoice(run=str(stored), min_reward=2.0))


def test_validation_tasks_are_not_trained_on(write_run: Any) -> None:
    path = write_run("b", episodes=[episode(split="validation")])
    with pytest.raises(UsageError, match="it only played validation tasks, and what is trained must not be measured"):
        read_episodes(EpisodeChoice(run=str(path), min_reward=0.0))
