"""What the debug backbone shows while it plays, at the end, and when it does not come to its end."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from astuner.contract.errors import Interrupted, RunFailed
from astuner.runs.driver.launch import start_run
from astuner.runs.driver.run_request import RunRequest
from astuner_devkit.project import write_project
from astuner_devkit.run_in_process import PlayedRun, read_run

TWO = [{"task_id": "one", "main_query": "1 + 1?", "answer": "2"}, {"task_id": "two", "main_query": "2 + 2?", "answer": "4"}]

AGENT = """
import asyncio, os, signal
from astuner import Workflow, WorkflowOutput

class Agent(Workflow):
    async def execute(self, workflow_task, tuner):
        client = tuner.as_raw_openai_sdk_client()
        question = [{"role": "user", "content": workflow_task.task.main_query}]
        answer = await client.chat.completions.create(model="m", messages=question)
        if workflow_task.task_id == "two":
            SECOND
        return WorkflowOutput(REWARDmetadata={"final_answer": answer.choices[0].message.content})
"""

Run = Callable[..., PlayedRun]


@pytest.fixture
def agent(tmp_path: Path) -> Callable[..., str]:
    def write(second: str, reward: str = "") -> str:
        (tmp_path / "agent.py").write_text(AGENT.replace("SECOND", second).replace("REWARD", reward))
        return "./agent.py:Agent"

    return write


def shown(played: PlayedRun) -> list[str]:
    """Return the first word or two of everything that the backbone showed, and what is between."""
    starts = ("episode ", "judged ", "the samples", "from what")
    return [text.split(":")[0].split("\n")[0] for text in played.notices if text.startswith(starts)]


def test_each_episode_is_shown_as_it_ends_and_its_reward_when_its_siblings_have(run: Run) -> None:
    played = run(tasks=TWO[1:], replies=["4"], settings={"rollout": {"num_repeat": 2}, "debug": {"debug_max_parallel": 1}})
    assert shown(played) == [
        "episode train/1/two/0",
        "episode train/1/two/1",
        "judged train/1/two",
        "the samples of a training step",
        "from what was sampled to what is learnt",
    ]
    (judged,) = [text for text in played.notices if text.startswith("judged")]
    assert judged.splitlines()[1:] == ["  train/1/two/0: reward 1, success", "  train/1/two/1: reward 1, success"]


def test_a_single_episode_is_shown_with_its_reward(run: Run) -> None:
    played = run(tasks=TWO[1:], replies=["4"])
    (episode,) = [text for text in played.notices if text.startswith("episode")]
    assert episode.splitlines()[-1] == "  reward 1, success"


def test_it_ends_with_the_samples_that_training_would_have_used(run: Run) -> None:
    estimator = {"trainer_common": {"algorithm": {"adv_estimator": "reinforce_plus_plus"}}}
    played = run(tasks=TWO, replies=["4"], settings=estimator)
    samples, waterfall = (text.splitlines() for text in played.notices if text.startswith(("the samples", "from what")))
    assert [line.split() for line in samples[1:]] == [
        ["episode", "agent", "tokens", "trained", "reward", "advantage"],
        ["train/1/one/0", "agent", "18", "2", "0", "-0.866"],
        ["train/1/two/0", "agent", "18", "2", "1", "+0.866"],
    ]
    assert waterfall[1:] == ["  4  tokens sampled", "= 4  in samples", "= 4  trainable", "= 4  with signal"]


def test_ctrl_c_leaves_what_was_played(run: Run, agent: Callable[..., str], tmp_path: Path) -> None:
    workflow = agent("os.kill(os.getpid(), signal.SIGINT); await asyncio.sleep(60)", reward="reward=1.0, ")
    with pytest.raises(Interrupted):
        run(tasks=TWO, workflow=workflow, settings={"debug": {"debug_max_parallel": 1}})
    played = read_run(tmp_path / "launcher_record/run1.debug")
    assert shown(played) == ["episode train/1/one/0", "the samples of a training step", "from what was sampled to what is learnt"]


SLOW_JUDGE = """
import asyncio, os, signal

class Slow:
    async def compute_reward(self, workflow_task, workflow_output):
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(60)
"""


def test_so_does_ctrl_c_while_the_judge_is_asked(run: Run, tmp_path: Path) -> None:
    (tmp_path / "judge.py").write_text(SLOW_JUDGE)
    with pytest.raises(Interrupted):
        run("./judge.py:Slow", workflow="astuner_devkit.workflows:OneTurn")
    assert shown(read_run(tmp_path / "launcher_record/run1.debug")) == ["episode train/1/sum/0"]


def test_a_run_that_loses_its_episodes_shows_them_all_the_same(run: Run, agent: Callable[..., str], tmp_path: Path) -> None:
    settings = {"rollout": {"max_retries": 0, "failure_budget": 0.1}, "debug": {"debug_max_parallel": 1}}
    with pytest.raises(RunFailed, match="1 of 2 episodes"):
        run("astuner_devkit.judges:ExactAnswer", tasks=TWO, workflow=agent("raise KeyError('answer')"), settings=settings)
    played = read_run(tmp_path / "launcher_record/run1.debug")
    assert "= 2  trainable" in played.notices[-1]
    assert "- 2  untrained: failed" in played.notices[-1]


def test_the_next_run_replaces_it_beside_what_training_keeps(tmp_path: Path) -> None:
    conf = write_project(tmp_path)
    kept = tmp_path / "launcher_record/project"
    first, second = start_run(RunRequest(conf=conf)), start_run(RunRequest(conf=conf))
    assert first.directory == second.directory == kept.with_name("project.debug")
    assert len((second.directory / "episodes/train.jsonl").read_text().splitlines()) == 2
    assert not kept.exists()


class Chat(BaseHTTPRequestHandler):
    """Answers every chat completion with 4."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        message = {"role": "assistant", "content": "4"}
        body = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def api() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Chat) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


def test_a_remote_api_gives_transcripts_and_rewards_and_says_why_there_are_no_samples(run: Run, api: str) -> None:
    settings = {"rollout": {"name": "openai", "openai": {"base_url": api, "model": "any"}}}
    played = run(tasks=TWO[1:], settings=settings)
    assert played.rewards == [1.0]
    (episode,) = [text for text in played.notices if text.startswith("episode")]
    assert "    [call 0: stop, no token ids]" in episode.splitlines()
    assert any("there are no samples" in text for text in played.notices)
    assert not any(text.startswith("the samples") for text in played.notices)


SILENT = """
from astuner import Workflow, WorkflowOutput

class Silent(Workflow):
    async def execute(self, workflow_task, tuner):
        return WorkflowOutput(metadata={"final_answer": "4"})
"""


def test_agents_that_never_call_the_model_are_why_there_are_no_samples(run: Run, tmp_path: Path) -> None:
    (tmp_path / "silent.py").write_text(SILENT)
    played = run("astuner_devkit.judges:ExactAnswer", tasks=TWO[1:], workflow="./silent.py:Silent")
    assert played.notices[-1] == "no episode called the model, so there are no samples and nothing could be trained"
