"""A context beyond the model's own is named before a run starts, and not only by `--dry-run`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from astuner.settings.planning.plan import plan_run

CONFIG = """\
astuner:
  backbone: BACKBONE
  model: {path: .}
  task_reader: {type: dataset_file, dataset_file: {training: {file_path: tasks.jsonl}}}
  rollout: {user_workflow: "./agent.py:Agent"}
"""


@pytest.mark.parametrize(("backbone", "context", "said"), [("local", 512, True), ("local", 18000, False), ("debug", 512, False)])
def test_a_context_beyond_the_models_own_is_a_notice(tmp_path: Path, backbone: str, context: int, said: bool) -> None:
    (tmp_path / "agent.py").write_text("class Agent:\n    async def execute(self, workflow_task, tuner): ...\n")
    (tmp_path / "tasks.jsonl").write_text('{"main_query": "?"}\n')
    (tmp_path / "config.json").write_text(json.dumps({"max_position_embeddings": context}))
    (tmp_path / "tune.yaml").write_text(CONFIG.replace("BACKBONE", backbone))
    found = [notice for notice in plan_run(tmp_path / "tune.yaml").notices if "max_model_len" in notice]
    assert [notice.partition("(")[0] for notice in found] == said * [
        "rollout.max_model_len is 18,000, and the model was made for contexts of 512 "
    ]
