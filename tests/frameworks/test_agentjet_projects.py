"""The example projects of AgentJet, as they are but for paths and the model: their YAML is valid, and their agents play."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from harness import environment
from runs_on_disk import record

from astuner.runs.store.store_lines import read_records

pytestmark = pytest.mark.agentscope1

EXAMPLES = Path(__file__).parents[3] / "shared" / "data" / "agentjet_examples"
MATH = "tutorial/example_math_agent/math_agent.yaml"
RUBRICS = "tutorial/example_rubrics_judge/r_judge.yaml"
COUNTDOWN = "tutorial/example_countdown/countdown.yaml"
WEREWOLVES = "tutorial/example_werewolves/werewolves.yaml"
LAKE = "tutorial/example_frozenlake/frozenlake_easy.yaml"
YAML = (MATH, RUBRICS, COUNTDOWN, WEREWOLVES, LAKE, "tutorial/example_frozenlake/frozenlake_hard.yaml")
AGENTS = (
    "tutorial.example_math_agent.math_agent->ExampleMathLearn",
    "tutorial.example_math_agent.math_agent_langchain->ExampleMathLearn",
    "tutorial/example_math_agent/math_agent_oai_sdk.py->ExampleMathLearn_Simple_NoToolCall",
    "tutorial/example_math_agent/math_agent_oai_sdk.py->ExampleMathLearn",
    "tutorial/example_math_agent/math_agent_raw_http.py->ExampleMathLearn",
    "tutorial/example_math_agent/math_agent_simplify.py->MathToolWorkflow",
    "tutorial/example_math_agent/math_agentscope_urlkey.py->MathToolWorkflow",
)
SUMS = [{"question": "What is 2+2?", "answer": "2 and 2 #### 4"}, {"question": "What is 3+2?", "answer": "#### 5"}]
PUZZLES = [{"target": 10, "nums": [1, 2, 7]}, {"target": 10, "nums": [1, 2, 7]}]
ROOM = ("data.max_prompt_length=16000", "data.max_response_length=16000", "rollout.max_model_len=32000")
"""The tiny tokenizer has a token for almost every letter."""


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("DASHSCOPE_API_KEY", "none")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A copy of the projects, with a data set where the YAML is told to find one."""
    if not EXAMPLES.is_dir():
        pytest.skip("the examples are not there")
    shutil.copytree(EXAMPLES / "tutorial", tmp_path / "tutorial")
    for name, rows in {"gsm8k": SUMS, "countdown": PUZZLES}.items():
        (tmp_path / name).mkdir()
        for split in ("train", "test"):
            (tmp_path / name / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    rubrics = tmp_path / "tutorial" / "example_rm_auto_grader" / "rubrics_train.jsonl"
    rubrics.parent.mkdir(exist_ok=True)
    rubrics.write_text("".join(json.dumps({"main_query": row["question"], **row}) + "\n" for row in SUMS))
    return tmp_path


def choose_paths(yaml: str, model: Path) -> list[str]:
    """Return the paths and the model, which everybody has to set."""
    data = {MATH: "gsm8k", RUBRICS: "gsm8k", COUNTDOWN: "countdown"}.get(yaml)
    return [f"model.path={model}", *([f"task_reader.huggingface_dat_repo.dataset_path={data}"] if data else [])]


def run(home: Path, *arguments: str, settings: list[str]) -> None:
    """Run a command as a user does: in a process of its own, since every project has a package `tutorial`."""
    command = [sys.executable, "-m", "astuner", *arguments, *(f"--set={one}" for one in settings)]
    done = subprocess.run(command, cwd=home, env=environment(), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("yaml", YAML)
def test_every_yaml_is_valid_on_a_backbone_that_trains(yaml, home, tiny_model):
    run(home, "config", "validate", "--conf", yaml, "--backbone=local", settings=choose_paths(yaml, tiny_model))


def play(home: Path, yaml: str, model: Path, *settings: str, replies: list[str]) -> list[dict[str, Any]]:
    """Play a group of two episodes against a script, and return the episodes."""
    few = ["rollout.name=scripted", f"rollout.scripted.replies={json.dumps(replies)}", "rollout.num_repeat=2", *ROOM]
    given = [*choose_paths(yaml, model), *few, "debug.debug_first_n_tasks=1", *settings]
    run(home, "run", "--conf", yaml, "--backbone=debug", settings=given)
    rows = [row for _, row in read_records(record(home, f"{Path(yaml).stem}.debug") / "episodes" / "train.jsonl")]
    verdicts = {key: value for row in rows if row["kind"] == "verdicts" for key, value in row["verdicts"].items()}
    return [{**row["episode"], "verdict": verdicts[row["episode"]["id"]]} for row in rows if row["kind"] == "episode"]


@pytest.mark.parametrize("agent", AGENTS)
def test_every_agent_of_the_math_example_plays_and_is_judged(agent, home, tiny_model):
    episodes = play(home, MATH, tiny_model, f"rollout.user_workflow={agent}", replies=["It is \\boxed{4}."])
    assert [episode["failures"] for episode in episodes] == [[], []]
    assert all("boxed{4}" in episode["output"]["metadata"]["final_answer"] for episode in episodes)
    rewards = {episode["task"]["main_query"]: episode["verdict"]["reward"] for episode in episodes}
    assert rewards in ({"What is 2+2?": 1.0}, {"What is 3+2?": 0.0})
    assert all(episode["samples"] for episode in episodes)


def test_the_agent_of_the_rubrics_example_plays(home, tiny_model):
    judge = "task_judge.judge_type=customized_protocol", "task_judge.judge_protocol=./judges.py->Fair"
    (home / "tutorial" / "example_rubrics_judge" / "judges.py").write_text(
        "class Fair:\n    def compute_reward(self, *_): return 1.0\n"
    )
    episodes = play(home, RUBRICS, tiny_model, *judge, replies=["It is \\boxed{4}."])
    assert [episode["verdict"]["reward"] for episode in episodes] == [1.0, 1.0]


def test_a_countdown_is_played_though_its_rows_have_no_question(home, tiny_model):
    episodes = play(home, COUNTDOWN, tiny_model, replies=["\\boxed{1 + 2 + 7}"])
    assert [episode["verdict"] for episode in episodes] == [{**episodes[0]["verdict"], "reward": 1.0, "is_success": True}] * 2


def test_the_lake_has_the_size_that_its_own_section_says(home, tiny_model):
    big = play(home, LAKE, tiny_model, "frozen_lake.frozen_lake_size=7", replies=["```Down```"])
    assert [episode["failures"] for episode in big] == [[], []]
    first = big[0]["calls"][0]["messages"][-1]["content"]
    board = first if isinstance(first, str) else "".join(part["text"] for part in first)
    assert (
        max(sum(line.count(mark) for mark in "_OGP") for line in board.splitlines() if set(line.strip()) <= set("_OGP \t")) == 7
    )
    assert all(episode["output"]["metadata"]["step_count"] >= 1 for episode in big)


def test_werewolves_are_trained_and_nobody_else(home, tiny_model):
    episodes = play(home, WEREWOLVES, tiny_model, replies=["I vote for Player1."])
    assert [episode["failures"] for episode in episodes] == [[], []]
    assert {call["target_tag"] for episode in episodes for call in episode["calls"]} == {"werewolf"}
    assert all(episode["samples"] for episode in episodes)
