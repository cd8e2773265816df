"""A project whose agent sends support tickets to a queue, with one tool; and twenty demonstrations of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

WORDS = {
    "billing": ("invoice", "refund", "charge", "receipt", "payment"),
    "hardware": ("screen", "keyboard", "battery", "printer", "mouse"),
    "network": ("wifi", "vpn", "router", "download", "firewall"),
}
SENTENCES = (
    "My {} is wrong.",
    "There is a problem with the {}.",
    "Please help me with my {}.",
    "The {} does not work.",
    "I have a question about the {}.",
)
HELD_OUT_SENTENCES = ("Something happened to my {}.", "The {} is a problem.")
DEMONSTRATIONS = 20
SYSTEM_PROMPT = "Send the ticket to the right queue."
TOOL = {
    "type": "function",
    "function": {
        "name": "route",
        "parameters": {"type": "object", "properties": {"queue": {"type": "string"}}, "required": ["queue"]},
    },
}

AGENT = f"""
import json

from astuner import Workflow, WorkflowOutput

TOOL = {TOOL!r}


class Router(Workflow):
    async def execute(self, workflow_task, tuner):
        client = tuner.as_raw_openai_sdk_client()
        messages = [
            {{"role": "system", "content": {SYSTEM_PROMPT!r}}},
            {{"role": "user", "content": workflow_task.task.main_query}},
        ]
        reply = (await client.chat.completions.create(model="tuned", messages=messages, tools=[TOOL])).choices[0].message
        queue = None
        for call in reply.tool_calls or []:
            try:
                queue = json.loads(call.function.arguments).get("queue")
            except (ValueError, AttributeError):
                queue = None
        return WorkflowOutput(metadata={{"queue": queue}})
"""

JUDGE = """
class RightQueue:
    def compute_reward(self, workflow_task, workflow_output):
        right = workflow_output.metadata["queue"] == workflow_task.task.metadata["queue"]
        return float(right), right
"""

CONFIGURATION = """
astuner:
  project_name: tickets
  experiment_name: router
  backbone: local
  seed: 0
  model: {path: ./model}
  task_reader:
    type: dataset_file
    dataset_file:
      training: {file_path: train.jsonl}
      validation: {file_path: validation.jsonl}
  task_judge: {judge_type: customized_protocol, judge_protocol: "./judge.py:RightQueue"}
  data: {train_batch_size: 12, max_prompt_length: 128, max_response_length: 96}
  rollout: {user_workflow: "./agent.py:Router", num_repeat: 8, max_model_len: 256, max_response_length_in_one_turn: 32}
  trainer_common:
    total_training_steps: 40
    optim: {lr: 2.0e-4, lr_warmup_steps: 5, lr_scheduler_type: linear}
    val_before_train: true
    val_pass_n: 1
    test_freq: -1
    logger: [console]
"""

Ticket = tuple[str, str]


def write_ticket_project(directory: Path) -> Path:
    """Write everything but the model; return the configuration."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in (("agent.py", AGENT), ("judge.py", JUDGE), ("tune.yaml", CONFIGURATION)):
        (directory / name).write_text(text.lstrip(), encoding="utf-8")
    known, others = _list_tickets(SENTENCES), _list_tickets(HELD_OUT_SENTENCES)
    write_rows(directory / "demos.jsonl", [_demonstrate(*ticket) for ticket in known[:DEMONSTRATIONS]])
    write_rows(directory / "train.jsonl", [{"main_query": text, "queue": queue} for text, queue in known[DEMONSTRATIONS:]])
    write_rows(directory / "validation.jsonl", [{"main_query": text, "queue": queue} for text, queue in others])
    return directory / "tune.yaml"


def write_rows(file: Path, rows: Sequence[Any]) -> None:
    """Write JSON lines."""
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _list_tickets(sentences: Sequence[str]) -> list[Ticket]:
    found = [(text.format(word), queue) for queue, words in WORDS.items() for word in words for text in sentences]
    Random(0).shuffle(found)
    return found


def _demonstrate(text: str, queue: str) -> dict[str, Any]:
    function = {"name": "route", "arguments": json.dumps({"queue": queue})}
    return {
        "messages": [
            {"role": "system", "content": SYSTEM_PROMPT},
            {"role": "user", "content": text},
            {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": function}]},
        ],
        "tools": [TOOL],
    }
