"""The parts of the form that writes a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

EXAMPLES = [
    {
        "title": "One machine",
        "yaml": """astuner:
  project_name: my-project
  experiment_name: first
  backbone: local
  model:
    path: ./model
  task_reader:
    type: dataset_file
    dataset_file:
      training:
        file_path: ./tasks/train.jsonl
  rollout:
    user_workflow: ./agent.py:MyAgent
    num_repeat: 8
  task_judge:
    judge_type: customized_protocol
    judge_protocol: ./judge.py:MyJudge
  trainer_common:
    total_training_steps: 40
""",
    }
]


def list_sections(schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the sections of the root `astuner`, each with the dotted paths of its keys."""
    from astuner_logview.pages.configuration import follow

    root = follow(schema, (follow(schema, schema).get("properties") or {}).get("astuner", {}))
    own, sections = [], []
    for name, child in (root.get("properties") or {}).items():
        node = follow(schema, child)
        keys = _list_keys(schema, node, f"astuner.{name}")
        if keys == [f"astuner.{name}"]:
            own += keys
        else:
            title = name.replace("_", " ").capitalize()
            sections.append({"path": f"astuner.{name}", "title": title, "text": node.get("description") or "", "keys": keys})
    general = {"path": "astuner", "title": "General", "text": root.get("description") or "", "keys": own}
    return [general, *sections]


def _list_keys(schema: Mapping[str, Any], node: Mapping[str, Any], path: str, depth: int = 0) -> list[str]:
    from astuner_logview.pages.configuration import follow

    properties = node.get("properties")
    if not properties or depth > 6:
        return [path]
    return [
        key
        for name, child in properties.items()
        for key in _list_keys(schema, follow(schema, child), f"{path}.{name}", depth + 1)
    ]
