"""The YAML of the documents is accepted as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from astuner.settings.config.trees import merge
from astuner_devkit.project import write_tokenizer

REPOSITORY = Path(__file__).parents[3]
PAGES = ("docs/algorithms.md", "plugins/astuner-algorithms/README.md")
BLOCKS = [
    pytest.param(block, id=f"{page}-{number}")
    for page in PAGES
    for number, block in enumerate(re.findall(r"^```yaml\n(.*?)^```$", (REPOSITORY / page).read_text("utf-8"), re.M | re.S))
]
REST = {
    "backbone": "local",
    "model": {"path": "./model"},
    "task_reader": {"type": "dataset_file", "dataset_file": {"training": {"file_path": "tasks.jsonl"}}},
    "task_judge": {"judge_protocol": "astuner_devkit.judges:ExactAnswer"},
    "rollout": {"user_workflow": "astuner_devkit.workflows:OneTurn"},
}


@pytest.mark.parametrize("block", BLOCKS)
def test_it_is_a_valid_configuration(block: str, cli: Callable[..., Any], tmp_path: Path) -> None:
    write_tokenizer(tmp_path / "model")
    (tmp_path / "tasks.jsonl").write_text(json.dumps({"main_query": "2 + 2?", "answer": "4"}) + "\n")
    whole = merge(REST, yaml.safe_load(block)["astuner"])
    (tmp_path / "tune.yaml").write_text(yaml.safe_dump({"astuner": whole}))
    found = cli("config", "validate", "--conf", tmp_path / "tune.yaml", cwd=tmp_path)
    assert found.code == 0, found.out + found.err
