"""A project whose agent answers right only if its system prompt names a word, and the API that plays the agent and reflects."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from astuner.settings.config.trees import merge
from astuner_devkit.run_in_process import RECORDER
from astuner_devkit.scripted_api import Reply, ScriptedApi

SEED = "Answer the question."

AGENT = '''
"""Asks once, with a system prompt of its own."""

from astuner import Workflow, WorkflowOutput

PROMPT = "Answer the question."


class Agent(Workflow):
    async def execute(self, workflow_task, tuner):
        api = tuner.as_oai_baseurl_apikey()
        client = tuner.as_raw_openai_sdk_client()
        messages = self.open(workflow_task.task)
        answer = await client.chat.completions.create(model=api.model, messages=messages)
        return WorkflowOutput(metadata={"final_answer": answer.choices[0].message.content})

    def open(self, task):
        return [{"role": "system", "content": PROMPT}, {"role": "user", "content": task.main_query}]


class Silent(Agent):
    def open(self, task):
        return [{"role": "user", "content": task.main_query}]


class Varying(Agent):
    def open(self, task):
        return [{"role": "system", "content": f"{PROMPT}\\nToday's task: {task.task_id}"}, *super().open(task)[1:]]
'''

WORDS = ("alpha", "beta")
"""The answer of a task is one of them, and the agent knows it if its system prompt has it."""


def play_agent(body: Mapping[str, Any]) -> str:
    """Answer with the word that the question asks for, if the system message names it."""
    system = "".join(message["content"] for message in body["messages"] if message["role"] == "system")
    wanted = body["messages"][-1]["content"].split()[1]
    return wanted if wanted in system else "no idea"


def add_a_word(question: str) -> str:
    """Propose the present prompt with one more of the words."""
    present = question.split("```")[1].strip()
    missing = [word for word in WORDS if word not in present]
    return f"Better:\n```\n{present} {missing[0] if missing else 'Please.'}\n```"


def script(reflect: Callable[[str], str | Reply] = add_a_word) -> Callable[[Mapping[str, Any], int], str | Reply]:
    """Return what plays both models."""

    def answer(body: Mapping[str, Any], number: int) -> str | Reply:
        if body["model"] == "reflector":
            return reflect(body["messages"][-1]["content"])
        return play_agent(body)

    return answer


def count_calls(api: ScriptedApi, model: str = "player") -> int:
    """Return how often a model was asked."""
    return sum(body["model"] == model for body in api.bodies)


def write_project(directory: Path, api: ScriptedApi, gepa: Mapping[str, Any] | None = None, **settings: Any) -> Path:
    """Write the project of four tasks, two per word, and return its YAML; `settings` are merged over the section `astuner`."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "agent.py").write_text(AGENT)
    for split, count in (("train", 4), ("held_out", 2)):
        rows = [
            {"task_id": f"{split}-{number}", "main_query": f"Say {WORDS[number % 2]} please", "answer": WORDS[number % 2]}
            for number in range(count)
        ]
        (directory / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    files = {"training": {"file_path": "train.jsonl"}, "validation": {"file_path": "held_out.jsonl"}}
    section = {
        "experiment_name": "prompts",
        "experiment_dir": str(directory / "run"),
        "backbone": "gepa",
        "data": {"train_batch_size": 2, "shuffle": False},
        "task_reader": {"type": "dataset_file", "dataset_file": files},
        "task_judge": {"judge_protocol": "astuner_devkit.judges:ExactAnswer"},
        "rollout": {
            "user_workflow": "./agent.py:Agent",
            "name": "openai",
            "openai": {"base_url": api.url, "model": "player", "max_retries": 0},
            "num_repeat": 2,
            "max_env_worker": 4,
        },
        "trainer_common": {
            "total_training_steps": 6,
            "val_pass_n": 1,
            "save_freq": 2,
            "logger": ["jsonl", RECORDER],
        },
    }
    native = {"reflection": {"model": "reflector", "base_url": api.url, "api_key_env": None, "max_retries": 0}}
    tree = {"astuner": merge(section, settings), "gepa": merge(native, gepa or {})}
    conf = directory / "tune.yaml"
    conf.write_text(yaml.safe_dump(tree, sort_keys=False))
    return conf
