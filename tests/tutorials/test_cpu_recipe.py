"""The recipe for a CPU: its row, its files, its memory, and that its values are those of the tutorial that was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from attrs import asdict
from recipe_files import RECIPES, SHAPES, Recipe, read_memory_plan

from astuner.settings.config.loading import load_config

RECIPE = RECIPES / "0.1b-cpu.yaml"
TUTORIAL = RECIPES.parent / "tutorial" / "shop" / "tune.yaml"
GIB = 2**30


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Its plan of memory, for a model of the shape that it names."""
    monkeypatch.setenv("ASTUNER_MODEL", str(SHAPES / "smollm2-135m"))
    return read_memory_plan(RECIPE, "--backbone", "local")


def test_the_table_has_its_row(plan: Any) -> None:
    (row,) = [line for line in (RECIPES / "README.md").read_text(encoding="utf-8").splitlines() if RECIPE.name in line]
    playing, training = (plan["devices"][0]["totals"][phase] / GIB for phase in ("playing", "training"))
    assert row == f"| `{RECIPE.name}` | local | {plan['parameters'] / 1e6:.1f} | {playing:.1f} | {training:.1f} |"


def test_it_fits_a_laptop_of_16_gb(plan: Any) -> None:
    assert max(plan["devices"][0]["totals"].values()) < 8 * GIB


def test_its_agent_judge_and_tasks_are_files_of_the_repository() -> None:
    settings = Recipe(path=RECIPE).settings["astuner"]
    files = settings["task_reader"]["dataset_file"]
    named = [settings["rollout"]["user_workflow"], settings["task_judge"]["judge_protocol"]]
    named += [files[split]["file_path"] for split in ("training", "validation")]
    assert [name for name in named if not (RECIPES / name.partition(":")[0]).is_file()] == []


def test_without_a_variable_the_model_is_the_one_that_is_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ASTUNER_MODEL", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".cache" / "astuner" / "models" / "smollm2-135m"
    folder.mkdir(parents=True)
    assert load_config(RECIPE, ["backbone=local"]).config.model.path == str(folder)


def test_it_trains_as_the_tutorial_that_was_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ASTUNER_MODEL", str(tmp_path))
    recipe, tutorial = (load_config(path, ["backbone=local", f"model.path={tmp_path}"]).config for path in (RECIPE, TUTORIAL))
    assert asdict(recipe.trainer_common.optim) == asdict(tutorial.trainer_common.optim)
    for section, keys in {
        "data": ("train_batch_size", "max_prompt_length", "max_response_length"),
        "rollout": ("num_repeat", "temperature", "max_model_len", "max_response_length_in_one_turn", "val_kwargs"),
        "trainer_common": ("total_training_steps", "use_kl_loss", "kl_loss_coef", "val_pass_n"),
        "model": ("dtype", "lora_rank"),
    }.items():
        found = [[getattr(getattr(config, section), key) for key in keys] for config in (recipe, tutorial)]
        assert found[0] == found[1]
