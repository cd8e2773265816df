"""The commands of the skills work as they stand, in a project of `astuner init` that trains a tiny model for two steps."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path

import pytest
import yaml
from harness import REPOSITORY
from page_commands import Bash

from astuner.settings.config.trees import merge

BLOCK = re.compile(r"^( *)```bash\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
TUNE = {
    "backbone": "local",
    "data": {"train_batch_size": 2, "max_prompt_length": 900, "max_response_length": 600},
    "rollout": {"num_repeat": 2, "max_model_len": 1500, "max_response_length_in_one_turn": 16},
    "trainer_common": {"total_training_steps": 2, "save_freq": 1, "test_freq": 2, "val_before_train": False},
}
"""What the person sets, and makes the run small."""


def read_commands(skill: str) -> list[str]:
    """Return the blocks of a skill; those of a list are indented."""
    text = (REPOSITORY / "skills" / skill / "SKILL.md").read_text(encoding="utf-8")
    return [textwrap.dedent(block) for _, block in BLOCK.findall(text)]


def read_documents(printed: str) -> list[object]:
    """Return the JSON documents of what commands have printed; lines of stderr follow them."""
    decoder, found, place = json.JSONDecoder(), [], 0
    while (start := re.compile(r"^[\[{]", re.MULTILINE).search(printed, place)) is not None:
        document, place = decoder.raw_decode(printed, start.start())
        found.append(document)
    return found


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("skills")


@pytest.fixture(scope="module")
def tuned(home: Path, bash: Bash, quickstart: Path) -> list[object]:
    """What the commands of `tune-my-agent` have printed; the project is there then, and trained."""
    found: list[object] = []
    for block in read_commands("tune-my-agent"):
        if "--dry-run" in block:
            conf = home / "my-agent" / "tune.yaml"
            person = {**TUNE, "model": {"path": str(quickstart / "model")}}
            conf.write_text(yaml.safe_dump(merge(yaml.safe_load(conf.read_text()), {"astuner": person})))
        found += read_documents(bash(block, home if "astuner init" in block else home / "my-agent"))
    return found


def test_the_commands_tune_an_agent(tuned: list[object], home: Path) -> None:
    assert [document for document in tuned if isinstance(document, dict) and "error" in document] == []
    assert (home / "my-agent" / "my-model" / "model.safetensors").is_file()


@pytest.mark.usefixtures("tuned")
@pytest.mark.parametrize("skill", ["why-does-it-not-learn", "write-a-judge"])
def test_the_commands_work_in_a_project_that_was_trained(skill: str, home: Path, bash: Bash) -> None:
    for block in read_commands(skill):
        said = bash(block, home / "my-agent")
        documents = read_documents(said)
        assert len(documents) >= block.count("--json"), said
        assert [document for document in documents if isinstance(document, dict) and "error" in document] == []


@pytest.mark.usefixtures("tuned")
def test_what_the_skills_look_at_is_there(home: Path, bash: Bash) -> None:
    def ask(command: str) -> dict[str, object]:
        (document,) = read_documents(bash(f"astuner {command} --json", home / "my-agent"))
        assert isinstance(document, dict)
        return document

    assert {"findings", "problems"} <= {*ask("why my-agent")}
    assert {"rows"} <= {*ask("doctor")}
    assert {"gained", "lost", "agreement"} <= {*ask("replay my-agent --conf tune.yaml --out again")["splits"][0]["agreement"]}  # type: ignore[index]
    assert {key["status"] for key in ask("config explain --conf tune.yaml --backbone debug")["keys"]} >= {"inapplicable"}  # type: ignore[attr-defined]
