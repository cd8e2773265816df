"""The table of the recipes is arithmetic over their keys and the shapes of their models, and each recipe has a row."""

from __future__ import annotations

from pathlib import Path

import pytest
from recipe_files import LARGEST_SHARE, RECIPES, Recipe, list_recipes, list_totals

from astuner.settings.config.loading import load_config

GB = 10**9
FULL, FROZEN, HALF = 16, 4, 2
"""Bytes of a parameter: trained in float32 with its gradient and two moments; kept in float32; in an engine."""
LOGIT = 8
"""Bytes of a logit and its gradient in float32."""
AUTOMATIC_SHARE = 0.4
"""Of the card, for a server of `local` that shares it with the trainer."""


def count_parameters(recipe: Recipe) -> int:
    shape = recipe.shape
    width, inner, vocabulary = shape["hidden_size"], shape["intermediate_size"], shape["vocab_size"]
    keys = width // shape["num_attention_heads"] * shape["num_key_value_heads"]
    attention = 2 * width * width + 2 * width * keys + width + 2 * keys
    layer = attention + 3 * width * inner + 2 * width
    tables = vocabulary * width * (1 if shape["tie_word_embeddings"] else 2)
    return int(shape["num_hidden_layers"] * layer + tables + width)


def plan_row(recipe: Recipe) -> str:
    """Return the row of the table, for the first backbone that the recipe names."""
    settings, shape = recipe.settings, recipe.shape
    model, rollout = settings["astuner"]["model"], settings["astuner"]["rollout"]
    native = settings.get("verl", {}).get("actor_rollout_ref", {})
    parameters, spread = count_parameters(recipe), rollout.get("tensor_model_parallel_size", 1)
    states = parameters * (FROZEN if "lora_rank" in model else FULL) / recipe.gpus / GB
    tokens = native.get("actor", {}).get("ppo_max_token_len_per_gpu", rollout["max_model_len"])
    logits = tokens * shape["vocab_size"] * LOGIT / GB
    weights = parameters * HALF / spread / GB
    card = 24 if "24gb" in recipe.name else 80
    share = native.get("rollout", {}).get("gpu_memory_utilization", AUTOMATIC_SHARE) * card
    token = (
        2 * HALF * shape["num_hidden_layers"] * shape["num_key_value_heads"] * shape["hidden_size"] / shape["num_attention_heads"]
    )
    cache = int((share - weights) * GB / (token / spread) / 1000)
    return f"| `{recipe.name}.yaml` | {', '.join(recipe.backbones)} | {states:.1f} | {logits:.1f} | {weights:.1f} | {cache} |"


def test_the_table_has_the_row_of_each_recipe() -> None:
    rows = [
        line
        for line in (RECIPES / "README.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("| `") and "gb" in line
    ]
    assert rows == [plan_row(recipe) for recipe in list_recipes()]


@pytest.mark.parametrize(
    ("size", "millions"), [("0.5b-1x24gb", 494), ("1.5b-1x80gb", 1544), ("7b-8x80gb", 7616), ("32b-lora-8x80gb", 32764)]
)
def test_the_shapes_have_the_published_number_of_parameters(size: str, millions: int) -> None:
    assert round(count_parameters(Recipe(path=RECIPES / f"{size}.yaml")) / 10**6) == millions


@pytest.mark.parametrize("recipe", list_recipes(), ids=lambda recipe: recipe.name)
def test_an_engines_gpus_divide_the_heads(recipe: Recipe) -> None:
    spread = recipe.settings["astuner"]["rollout"].get("tensor_model_parallel_size", 1)
    assert [recipe.shape[f"num_{kind}_heads"] % spread for kind in ("attention", "key_value")] == [0, 0]


@pytest.mark.parametrize("recipe", list_recipes(), ids=lambda recipe: recipe.name)
def test_its_agent_and_tasks_are_files_of_the_repository(recipe: Recipe) -> None:
    config = load_config(recipe.path, [f"backbone={recipe.backbones[0]}"]).config
    agent = Path(str(config.rollout.user_workflow).partition(":")[0])
    tasks = recipe.settings["astuner"]["task_reader"]["dataset_file"]
    named = [tasks[split]["file_path"].partition(",")[2].removesuffix("}") for split in ("training", "validation")]
    assert [path for path in (str(agent), *named) if not (RECIPES / path).is_file()] == []


@pytest.mark.parametrize("recipe", list_recipes(), ids=lambda recipe: recipe.name)
def test_each_states_that_it_is_not_measured(recipe: Recipe) -> None:
    assert "Not measured on a GPU" in recipe.path.read_text(encoding="utf-8")


@pytest.mark.parametrize("recipe", list_recipes("local"), ids=lambda recipe: recipe.name)
def test_it_fits_the_gpus_that_it_names(recipe: Recipe) -> None:
    totals = list_totals(recipe, "local")
    assert all(total <= LARGEST_SHARE * recipe.gpu_bytes for total in totals)
