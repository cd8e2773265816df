"""What the settings of a run become on this machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from astuner.contract.errors import AstunerError
from astuner.contract.protocols import RunInfo, SettledValue
from astuner.settings.plugins.drivers import load_with_traits

if TYPE_CHECKING:
    from astuner.settings.config.loading import LoadedConfig
    from astuner.settings.plugins.component import Component


def make_run_info(loaded: LoadedConfig, backbone: str, native: Mapping[str, Any]) -> RunInfo:
    """Return what a run's components may know, at the first attempt."""
    config = loaded.config
    return RunInfo(
        project_name=config.project_name,
        experiment_name=config.experiment_name,
        backbone=backbone,
        directory=Path(config.experiment_dir),
        config_dir=loaded.path.parent,
        seed=config.seed,
        config=config,
        user_keys=loaded.user_keys,
        native=native,
        conf=loaded.path,
        overrides=loaded.overrides,
        from_environment=loaded.from_environment,
    )


def settle_values(components: Iterable[Component], run_info: RunInfo) -> list[SettledValue]:
    """Return the values that the components settle, in their order."""
    found: list[SettledValue] = []
    for component in components:
        target, traits = load_with_traits(component.candidate)
        # A machine that cannot do what is asked is reported by the start of the run.
        with suppress(AstunerError):
            found += target.settle_values(run_info) if traits.settles_values else ()
    return found
