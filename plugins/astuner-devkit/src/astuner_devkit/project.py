"""A tiny project that runs without any model weights: tasks, a tokenizer, scripted replies, and the YAML that names them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ONE_TURN = "astuner_devkit.workflows:OneTurn"
EXACT_ANSWER = "astuner_devkit.judges:ExactAnswer"

TASKS: Sequence[Mapping[str, Any]] = ({"task_id": "sum", "main_query": "What is 2 + 2?", "answer": "4"},)
"""The default tasks of a project; fields unknown to tasks go to their metadata."""


def write_project(
    directory: Path,
    judge: str | None = None,
    *,
    tasks: Sequence[Mapping[str, Any]] | None = None,
    replies: Sequence[str] = ("4",),
    workflow: str | None = None,
    backbone: str = "debug",
    settings: Mapping[str, Any] | None = None,
    name: str = "project",
) -> Path:
    """Write `{name}.yaml`, `{name}.jsonl` and `model/` (a tokenizer alone) into `directory`, and return the YAML.

    `judge` and `workflow` are what a YAML takes: a name, `dist/name`, `package.module:Class` or `./file.py:Class`; by default
    the model is asked once, and its answer compared with the task's `answer`; where the settings let an environment lead
    (`environment.leads: true`) there is neither by default. `tasks` are the rows of the data file. `replies`
    are what the model says in the first, second… call of each episode; they serve the backbone `debug`, which plays every task
    once, while any other brings its own engine. `settings` are merged over the section `astuner` of the YAML. The run
    directory lies in `directory` too.
    """
    import yaml

    from astuner.settings.config.trees import merge

    given = settings or {}
    by_rollout = given.get("rollout", {}).get("use_agentscope_protocol") is False
    environment_leads = by_rollout or given.get("environment", {}).get("leads") is True
    asks_once = workflow is None and not environment_leads
    rows = TASKS if tasks is None else tasks
    directory.mkdir(parents=True, exist_ok=True)
    data = directory / f"{name}.jsonl"
    data.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    section = {
        "project_name": "testing",
        "experiment_dir": str(directory.resolve() / "launcher_record" / name),
        "backbone": backbone,
        "model": {"path": "./model"},
        "task_reader": {"type": "dataset_file", "dataset_file": {"training": {"file_path": data.name}}},
        "rollout": {"user_workflow": ONE_TURN if asks_once else workflow},
    }
    if asks_once and judge is None and "task_judge" not in given:
        judge = EXACT_ANSWER
    if judge is not None:
        section["task_judge"] = {"judge_protocol": judge}
    for tree in ((_make_script_settings(len(rows), replies) if backbone == "debug" else {}), given):
        section = merge(section, tree)
    write_tokenizer(directory / "model")
    conf = directory / f"{name}.yaml"
    conf.write_text(yaml.safe_dump({"astuner": section}, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return conf


def write_tokenizer(directory: Path) -> None:
    """Save the tiny tokenizer as a model directory without weights; existing files are kept."""
    if directory.exists():
        return
    from astuner_devkit.tokenizer import tiny_tokenizer

    tiny_tokenizer().save_pretrained(directory)


def _make_script_settings(tasks: int, replies: Sequence[str]) -> dict[str, Any]:
    return {
        "rollout": {"name": "scripted", "scripted": {"replies": list(replies)}, "num_repeat": 1},
        "debug": {"debug_first_n_tasks": max(tasks, 1)},
    }
