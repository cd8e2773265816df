"""verl's own validator and dataclasses accept every recipe on the machine that it names."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import pytest
from recipe_files import LARGEST_SHARE, Recipe, list_recipes, list_totals

from astuner.settings.config.loading import load_config
from astuner.settings.config.native import align
from astuner.settings.config.trees import get

pytestmark = pytest.mark.skipif(find_spec("verl") is None, reason="verl is not installed")


def resolve(recipe: Recipe, *, flash_attention: bool) -> dict[str, Any]:
    from astuner_verl.alignment import ALIGNMENT
    from astuner_verl.native_configuration import Machine, resolve_configuration

    loaded = load_config(recipe.path, ["backbone=verl", f"model.path={recipe.shape_home}"])
    found = align(ALIGNMENT, loaded)
    assert found.problems == ()
    machine = Machine(device="cuda", gpus_per_node=min(8, recipe.gpus), flash_attention=flash_attention, vllm=True)
    model, rollout = str(recipe.shape_home), loaded.config.rollout
    return resolve_configuration(found.tree, machine, rollout=rollout, model=model, loss_agg_mode="token-mean", steps=200)


@pytest.fixture
def vllm_rollout(monkeypatch: pytest.MonkeyPatch) -> None:
    """The function that verl's validator imports for adapters, from a package that needs vLLM, which this environment has not.

    It hides what else that package does when it is imported.
    """
    if find_spec("vllm") is None:
        package, utils = ModuleType("verl.workers.rollout.vllm_rollout"), ModuleType("verl.workers.rollout.vllm_rollout.utils")
        utils.get_vllm_max_lora_rank = round_up_rank  # type: ignore[attr-defined]
        for module in (package, utils):
            monkeypatch.setitem(sys.modules, module.__name__, module)


def round_up_rank(rank: int) -> int:
    """The smallest rank that vLLM has for adapters of this one; raises ValueError as verl does."""
    for known in (8, 16, 32, 64, 128, 256, 320, 512):
        if rank <= known:
            return known
    raise ValueError(f"lora_rank {rank} is too large for vLLM")


@pytest.mark.usefixtures("vllm_rollout")
@pytest.mark.parametrize("flash_attention", [True, False])
@pytest.mark.parametrize("recipe", list_recipes("verl"), ids=lambda recipe: recipe.name)
def test_verl_accepts_it(recipe: Recipe, flash_attention: bool) -> None:
    from omegaconf import OmegaConf
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import omega_conf_to_dataclass, validate_config

    from astuner_verl.host import DYNAMIC

    config = OmegaConf.create(resolve(recipe, flash_attention=flash_attention))
    config.trainer.v1.trainer_mode = "sync"
    OmegaConf.resolve(config)
    checked = OmegaConf.merge(config, {"actor_rollout_ref": {part: {f"{log}use_dynamic_bsz": True} for part, log in DYNAMIC}})
    validate_config(checked, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))
    actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)
    rollout = omega_conf_to_dataclass(config.actor_rollout_ref.rollout)
    assert actor.ppo_max_token_len_per_gpu >= rollout.max_model_len
    assert (rollout.name, rollout.free_cache_engine) == ("vllm", True)


@pytest.mark.parametrize("recipe", list_recipes("verl"), ids=lambda recipe: recipe.name)
def test_all_concurrent_episodes_have_a_place_in_an_engine(recipe: Recipe) -> None:
    tree = resolve(recipe, flash_attention=True)
    rollout = get(tree, "actor_rollout_ref.rollout")
    engines = recipe.gpus // rollout["tensor_model_parallel_size"]
    assert engines * rollout["max_num_seqs"] >= recipe.settings["astuner"]["rollout"]["max_env_worker"]


@pytest.mark.parametrize("recipe", list_recipes("verl"), ids=lambda recipe: recipe.name)
def test_it_fits_the_gpus_that_it_names(recipe: Recipe) -> None:
    totals = list_totals(recipe, "verl")
    assert all(total <= LARGEST_SHARE * recipe.gpu_bytes for total in totals)
