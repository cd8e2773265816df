"""Trinity's own loader and checks accept every recipe on the machine that it names."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from recipe_files import LARGEST_SHARE, Recipe, list_recipes, list_totals

from astuner.settings.config.loading import load_config
from astuner.settings.config.native import align

pytestmark = pytest.mark.skipif(find_spec("trinity") is None, reason="trinity is not installed")


@pytest.mark.parametrize("flash_attention", [True, False])
@pytest.mark.parametrize("recipe", list_recipes("trinity"), ids=lambda recipe: recipe.name)
def test_trinity_accepts_it(recipe: Recipe, flash_attention: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trinity.common import config_validator
    from trinity.common.config import Config
    from trinity.common.config import load_config as load_trinity_config
    from trinity.trainer.verl.config import build_verl_config

    from astuner_trinity.alignment import ALIGNMENT
    from astuner_trinity.launch import wrap_check
    from astuner_trinity.layout import Layout
    from astuner_trinity.native_configuration import Wanted, finish_configuration
    from astuner_trinity.process_environment import Machine
    from astuner_trinity.session import _write_text

    monkeypatch.setattr(config_validator, "create_dummy_lora", lambda **_: "adapter")
    found = align(ALIGNMENT, load_config(recipe.path, ["backbone=trinity", f"model.path={recipe.shape_home}"]))
    assert found.problems == ()
    nodes = recipe.settings["astuner"]["trainer_common"]["nnodes"]
    machine = Machine(gpus=min(8, recipe.gpus), nodes=nodes, flash_attention=flash_attention)
    wanted = Wanted(layout=Layout(tmp_path), model=str(recipe.shape_home), total_steps=200, loss_agg_mode="token-mean")
    (tmp_path / "trinity.yaml").write_text(_write_text(finish_configuration(found.tree, machine, wanted)))
    config: Any = load_trinity_config(str(tmp_path / "trinity.yaml"))
    wrap_check(Config.check_and_update)(config)
    build_verl_config(config)
    assert config.cluster.total_gpu_num == recipe.gpus
    assert config.mode == ("colocate" if recipe.gpus == 1 else "both")
    model = config.explorer.rollout_model
    assert recipe.gpus == 1 or 2 * model.engine_num * model.tensor_parallel_size == recipe.gpus


@pytest.mark.parametrize("recipe", list_recipes("trinity"), ids=lambda recipe: recipe.name)
def test_it_fits_the_gpus_that_it_names(recipe: Recipe) -> None:
    totals = list_totals(recipe, "trinity")
    assert all(total <= LARGEST_SHARE * recipe.gpu_bytes for total in totals)
