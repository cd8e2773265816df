"""The example projects of AgentJet on verl and on Trinity: no key is refused, and the trainer's own checks accept the result."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from astuner.settings.config.loading import LoadedConfig, load_config
from astuner.settings.config.native import align

SHARED = Path(__file__).parents[3] / "shared" / "data" / "agentjet_examples"
SHAPE = Path(__file__).parents[1] / "support" / "model_shapes" / "qwen2.5-7b"
YAML = (
    "math_agent/math_agent.yaml",
    "rubrics_judge/r_judge.yaml",
    "countdown/countdown.yaml",
    "werewolves/werewolves.yaml",
    "frozenlake/frozenlake_easy.yaml",
    "frozenlake/frozenlake_hard.yaml",
)
GPUS_PER_NODE = 8

pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason="the examples are not there")


def load(yaml: str, backbone: str) -> LoadedConfig:
    """Read a file as it is, but for the model and the backbone."""
    return load_config(SHARED / "tutorial" / f"example_{yaml}", [f"backbone={backbone}", f"model.path={SHAPE}"])


def count_gpus(loaded: LoadedConfig) -> int:
    """Return how many GPUs the file asks for."""
    trainer = loaded.config.trainer_common
    return (trainer.nnodes or 1) * (trainer.n_gpus_per_node or GPUS_PER_NODE)


@pytest.mark.skipif(find_spec("astuner_verl") is None or find_spec("verl") is None, reason="verl is not installed")
@pytest.mark.parametrize("yaml", YAML)
def test_verl_accepts_it(yaml: str) -> None:
    from omegaconf import OmegaConf
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import omega_conf_to_dataclass, validate_config

    from astuner_verl.alignment import ALIGNMENT
    from astuner_verl.host import DYNAMIC
    from astuner_verl.native_configuration import Machine, resolve_configuration

    loaded = load(yaml, "verl")
    found = align(ALIGNMENT, loaded)
    assert found.problems == ()
    machine = Machine(device="cuda", gpus_per_node=GPUS_PER_NODE, flash_attention=True, vllm=True)
    rollout = loaded.config.rollout
    tree = resolve_configuration(found.tree, machine, rollout=rollout, model=str(SHAPE), loss_agg_mode="token-mean", steps=25)
    config = OmegaConf.create(tree)
    config.trainer.v1.trainer_mode = "sync"
    OmegaConf.resolve(config)
    checked = OmegaConf.merge(config, {"actor_rollout_ref": {part: {f"{log}use_dynamic_bsz": True} for part, log in DYNAMIC}})
    validate_config(checked, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))
    native: Any = omega_conf_to_dataclass(config.actor_rollout_ref.rollout)
    assert (native.n, native.temperature) == (rollout.num_repeat, rollout.temperature)


@pytest.mark.skipif(find_spec("astuner_trinity") is None or find_spec("trinity") is None, reason="trinity is not installed")
@pytest.mark.parametrize("yaml", YAML)
def test_trinity_accepts_it(yaml: str, tmp_path: Path) -> None:
    from trinity.common.config import Config
    from trinity.common.config import load_config as load_trinity_config
    from trinity.trainer.verl.config import build_verl_config

    from astuner_trinity.alignment import ALIGNMENT
    from astuner_trinity.launch import wrap_check
    from astuner_trinity.layout import Layout
    from astuner_trinity.native_configuration import Wanted, finish_configuration
    from astuner_trinity.process_environment import Machine
    from astuner_trinity.session import _write_text

    loaded = load(yaml, "trinity")
    found = align(ALIGNMENT, loaded)
    assert found.problems == ()
    machine = Machine(gpus=GPUS_PER_NODE, nodes=loaded.config.trainer_common.nnodes or 1, flash_attention=True)
    wanted = Wanted(layout=Layout(tmp_path), model=str(SHAPE), total_steps=25, loss_agg_mode="token-mean")
    (tmp_path / "trinity.yaml").write_text(_write_text(finish_configuration(found.tree, machine, wanted)))
    config: Any = load_trinity_config(str(tmp_path / "trinity.yaml"))
    wrap_check(Config.check_and_update)(config)
    build_verl_config(config)
    assert config.cluster.total_gpu_num == count_gpus(loaded)
    assert config.algorithm.repeat_times == loaded.config.rollout.num_repeat
