"""verl's default configuration, read without importing verl."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from astuner.contract.errors import PluginError
from astuner_verl.process_environment import WANTED


@cache
def _compose_defaults() -> Mapping[str, Any]:
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    with initialize_config_dir(str(config_directory()), version_base=None):
        composed = compose("ppo_trainer")
    found: dict[str, Any] = OmegaConf.to_container(composed, resolve=False)  # type: ignore[assignment]  # the root is a mapping
    return found


def verl_defaults() -> Mapping[str, Any]:
    """Return `ppo_trainer.yaml`, nested, interpolations unresolved; raises `PluginError` if verl is not installed."""
    import copy

    return copy.deepcopy(dict(_compose_defaults()))


def config_directory() -> Path:
    """Return the directory of verl's YAML files."""
    spec = find_spec("verl")
    for place in spec.submodule_search_locations or () if spec is not None else ():
        directory = Path(place) / "trainer" / "config"
        if (directory / "ppo_trainer.yaml").is_file():
            return directory
    raise PluginError(f"verl is not installed, or has no trainer/config/ppo_trainer.yaml: pip install '{WANTED}'")
