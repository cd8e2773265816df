"""The card of an export: what a reader of it learns, and what stays on this machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from astuner.runs.inspection.run import Run
from astuner_tools.exporting.base_model import find_base, hide_paths
from astuner_tools.exporting.model_card import Export, format_card

WriteRun = Callable[..., Path]


def validation(step: int, success: float) -> dict[str, Any]:
    row: dict[str, Any] = {"step": step, "kind": "validation", "val/tasks": 120.0, "val/episodes": 120.0}
    return {**row, "val/reward/mean": success, "val/reward/std": 0.3, "val/success/rate": success}


@pytest.fixture
def card(write_run: WriteRun) -> Callable[..., str]:
    def write(*rows: dict[str, Any], kind: str = "hf", model: str = "org/base-1b", **more: Any) -> str:
        settings = {
            "model": {"path": model, "lora_rank": 0},
            "rollout": {"user_workflow": "/home/ann/secret project/agent.py:Shop", "num_repeat": 8},
            "trainer_common": {"optim": {"lr": 2e-5}, "total_training_steps": 8},
        }
        run = Run(write_run(rows=rows, settings=settings))
        return format_card(run, Export(kind=kind, step=8, dtype=None, base=find_base(None, run, None), name="shop", **more))

    return write


def test_it_says_how_the_model_was_measured(card: Callable[..., str]) -> None:
    text = card(validation(0, 10 / 120), validation(4, 0.5), validation(8, 119 / 120))
    assert "| validation | before (step 0) | this model (step 8) |" in text
    assert "| success | 8.3 % (4.6–14.7) | 99.2 % (95.4–99.9) |" in text


def test_a_checkpoint_that_was_not_validated_says_so(card: Callable[..., str]) -> None:
    text = card(validation(0, 0.1), validation(4, 0.5))
    assert "This checkpoint itself was not validated" in text
    assert "step 4" not in text


def test_without_validation_nothing_is_claimed(card: Callable[..., str]) -> None:
    assert "The run has measured neither the model before it nor this one" in card()


def test_the_settings_are_named(card: Callable[..., str]) -> None:
    text = card()
    assert "| learning rate | 2e-05 |" in text
    assert "| steps | 8 of 8 |" in text
    assert "LoRA rank" not in text


def test_the_hub_can_read_its_head(card: Callable[..., str]) -> None:
    head = yaml.safe_load(card(kind="gguf").split("---\n")[1])
    assert head["base_model"] == "org/base-1b"
    assert head["library_name"] == "gguf"


def test_no_directory_of_this_machine_is_in_it(card: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "my-base").mkdir()
    (tmp_path / "my-base" / "README.md").write_text("---\nlicense: apache-2.0\nbase_model: org/original\n---\n# it\n")
    text = card(model=str(tmp_path / "my-base"))
    assert str(tmp_path) not in text
    assert "secret project" not in text
    assert "| workflow | agent.py:Shop |" in text
    assert "license: apache-2.0" in text
    assert "[org/original](https://huggingface.co/org/original)" in text


def test_files_do_not_say_from_where_the_model_was_loaded(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"_name_or_path": "/home/ann/model", "model_type": "llama"}))
    (tmp_path / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "/home/ann/model", "r": 4}))
    hide_paths(tmp_path, find_base(str(tmp_path), None, "org/base"))
    assert json.loads((tmp_path / "config.json").read_text()) == {"model_type": "llama"}
    assert json.loads((tmp_path / "adapter_config.json").read_text()) == {"base_model_name_or_path": "org/base", "r": 4}
