"""A real run over generated tasks: `astuner run --backbone debug`, with an engine and an LLM that scripts play."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from astuner_devkit.command_line import CommandResult
from astuner_devkit.project import write_project
from astuner_devkit.scripted_api import ScriptedApi

Cli = Callable[..., CommandResult]

pytest.importorskip("tokenizers", reason="comes with astuner-core[rollout]")


@pytest.fixture
def conf(tmp_path: Path, small: Mapping[str, Any], like_samples: Mapping[str, Any]) -> Path:
    section = {"document_reader": small, "query_reader": like_samples, "task_num": 4}
    settings = {"task_reader": {"type": "data_generation", "data_generation": section}, "debug": {"debug_first_n_tasks": 4}}
    return write_project(tmp_path, settings=settings, replies=("I do not know",))


def run(cli: Cli, conf: Path) -> CommandResult:
    return cli("run", "--conf", conf, "--backbone", "debug")


def test_a_run_generates_its_tasks_and_plays_them(llm: ScriptedApi, cli: Cli, conf: Path) -> None:
    finished = run(cli, conf)
    assert finished.code == 0, finished.err
    assert "train: 4 of 4 tasks by qwen-long" in finished.err
    (made,) = (conf.parent / "generated_tasks").glob("train-*.jsonl")
    for line in made.read_text().splitlines():
        assert json.loads(line)["main_query"] in finished.err + finished.out


def test_a_run_that_is_started_after_data_generate_asks_nothing(llm: ScriptedApi, cli: Cli, conf: Path) -> None:
    cli("data", "generate", "--conf", conf)
    asked = len(llm.bodies)
    finished = run(cli, conf)
    assert finished.code == 0, finished.err
    assert len(llm.bodies) == asked > 0


def test_a_run_whose_llm_fails_says_why_and_leaves_nothing_half_made(llm: ScriptedApi, cli: Cli, conf: Path) -> None:
    llm.script = lambda body, number: "no"
    failed = run(cli, conf)
    assert failed.code == 1
    assert "task could be generated" in failed.err
    assert "requests: not_json" in failed.err
    assert not list((conf.parent / "generated_tasks").glob("*.jsonl"))
