"""Loads an environment of `verifiers` from its configuration, and a task of it from the task's data.

Only functions import the library: it takes more than a second.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from astuner.contract.errors import DataError, PluginError
from astuner.contract.plain_values import make_plain
from astuner.shared.install_hints import install_command, is_installed

EXTRA = "astuner-envs[verifiers]"


def check_installed(who: str) -> None:
    """Raise `PluginError` if `verifiers` is not installed; `who` needs it."""
    if not is_installed("verifiers"):
        raise PluginError(f"{who} needs the package verifiers: {install_command(EXTRA)}")


def resolve_environment(given: Mapping[str, Any], key: str) -> Any:
    """Return the typed configuration of an environment. Raises `DataError` for what does not fit, naming each place."""
    from pydantic import ValidationError
    from verifiers.v1 import resolve_env_config

    try:
        # The library changes the mappings that it validates.
        return resolve_env_config(make_plain(given).value)
    except ValidationError as error:
        raise DataError("\n".join(_describe(problem, key) for problem in error.errors())) from error
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise DataError(f"{key}: {error}") from error


def load_environment(config: Any, key: str) -> Any:
    """Make the environment; raises `DataError` if the environment refuses its configuration."""
    import verifiers.v1 as vf

    try:
        return vf.load_environment(config)
    except (ImportError, AttributeError, TypeError, ValueError, OSError) as error:
        raise DataError(f"{key}: environment '{config.env_id}' cannot be made: {type(error).__name__}: {error}") from error


def build_task(environment: Any, data: Mapping[str, Any]) -> Any:
    """Make a task from its data, as a server of `verifiers` does: no data set is loaded."""
    kind = type(environment.taskset).task_type()
    return kind(kind.data_type().model_validate(data), environment.config.taskset.task)


def get_roles(config: Any) -> Mapping[str, Any]:
    """Return the configurations of the agents by role."""
    from verifiers.v1.configs.agent import agent_config_fields

    roles: dict[str, Any] = agent_config_fields(config)
    return roles


def _describe(problem: Mapping[str, Any], key: str) -> str:
    place = ".".join((key, *map(str, problem["loc"])))
    return f"{place}: {problem['msg'].removeprefix('Value error, ')}"
