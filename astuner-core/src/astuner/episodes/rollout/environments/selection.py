"""Which environment a task is played in: what a configuration chose, and finding it by a task's `env_type`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from astuner.contract.errors import ConfigError, DataError, PluginError, Problem
from astuner.contract.schema import Split, Task
from astuner.settings.config.env_variables import NO_ENVIRONMENT, ActionPreference
from astuner.settings.config.structure_errors import find_closest
from astuner.settings.plugins.async_methods import format_place, is_plain_function

if TYPE_CHECKING:
    from astuner.contract.protocols import Candidate
    from astuner.settings.plugins.catalog import Catalog
    from astuner.settings.plugins.component import Component

KEY = "astuner.environment.environment_type"
METHODS = ("reset", "step", "evaluate", "close")


@frozen(kw_only=True)
class EnvironmentChoice:
    """What a configuration says about environments. Picklable."""

    everywhere: Component | None = None
    """The environment of every task; None takes what each task's `env_type` names."""
    given: Mapping[str, Component] = field(factory=dict)
    """Those with their own options, by name."""
    reader: str = ""
    """The task reader's name: an environment of the same name plays the tasks whose `env_type` names none."""
    preference: ActionPreference = "text"
    """How actions are read off answers where an environment leads."""
    leads: bool = False
    """Whether the environment leads and no workflow does, so that a task without one cannot be played."""
    shared: bool = True
    """Whether environments can be handed to workflows: not if these run in their own processes."""

    @property
    def components(self) -> list[Component]:
        """The environments that the configuration itself names."""
        return [self.everywhere] if self.everywhere is not None else list(self.given.values())


class EnvironmentFinder:
    """Finds the environment of a task among what is installed; each kind of task is looked up once."""

    def __init__(self, choice: EnvironmentChoice, catalog: Catalog) -> None:
        """Look in `catalog`."""
        self._choice, self._catalog = choice, catalog
        self._found: dict[str, Component | None] = {}

    def of(self, env_type: str) -> Component | None:
        """Return the environment; None when the task has none. Raises `PluginError` or `ConfigError` for an unusable one."""
        if self._choice.everywhere is not None:
            return self._choice.everywhere
        if env_type not in self._found:
            self._found[env_type] = None if env_type == NO_ENVIRONMENT else self._look_up(env_type)
        return self._found[env_type]

    def _look_up(self, env_type: str) -> Component | None:
        return self._find_named(env_type) or self._find_named(self._choice.reader.rpartition("/")[2])

    def _find_named(self, name: str) -> Component | None:
        given = self._choice.given.get(name, self._choice.given.get(name.rpartition("/")[2]))
        if given is not None:
            return given
        # Data name installed environments only: a path in a row would run code that comes with the data.
        if not self._catalog.offers("environment", name):
            return None
        return choose_environment(self._catalog.find("environment", name, config_dir=Path(), key=KEY))

    def why_none(self, env_type: str) -> str:
        """List what is installed, for a task whose environment is not."""
        offered = self._catalog.candidates("environment")
        installed = ", ".join(f"{each.name} ({each.provider})" for each in offered) or "none"
        similar = find_closest(env_type, (each.name for each in offered))
        return str(Problem(message=f"no environment '{env_type}'; installed: {installed}.", suggestion=similar))


class TasksToPlay:
    """Checks that every task has what the run plays it with; raises `DataError` for the first that does not."""

    def __init__(self, choice: EnvironmentChoice | None, catalog: Catalog) -> None:
        """Take the choice; None if no task has an environment."""
        self._choice, self._plays = choice or EnvironmentChoice(), choice is not None
        self._finder = EnvironmentFinder(self._choice, catalog)

    def check(self, task: Task, split: Split) -> None:
        """Look at a task."""
        place = f"task '{task.task_id}' ({split})"
        try:
            found = self._finder.of(task.env_type) if self._plays else None
        except (ConfigError, PluginError) as error:
            raise DataError(f"{place}, env_type '{task.env_type}': {error}") from error
        named = task.env_type != NO_ENVIRONMENT
        if found is None and not named and not task.init_messages and not str(task.main_query or "").strip():
            raise DataError(
                f"{place} has neither a main_query nor init_messages, so a workflow would ask an empty question. Its reader has "
                "to give it one of them, or an env_type"
            )
        if found is None and self._choice.leads:
            why = self._finder.why_none(task.env_type) if named else f"env_type '{NO_ENVIRONMENT}' names no environment."
            raise DataError(
                f"{place}: {why} Since rollout.use_agentscope_protocol is false, an environment has to lead: name one in the "
                "task's env_type, or for all tasks in environment.environment_type"
            )
        if found is not None and not self._choice.shared:
            raise DataError(
                f"{place} is played in the {found.candidate.blame}, which cannot be handed to a workflow in another process "
                "(rollout.isolation: process): set rollout.isolation to thread, or environment.environment_type: no_env"
            )


def choose_environment(candidate: Candidate, values: Mapping[str, Any] | None = None) -> Component:
    """Check an environment's class and return it with its options; raises `ConfigError` or `PluginError`."""
    from astuner.settings.plugins.component import Component
    from astuner.settings.plugins.drivers import load
    from astuner.settings.plugins.options import build_options

    if candidate.lack is not None:
        raise PluginError(candidate.lack)
    target = load(candidate)
    check_shape(candidate, target)
    section = f"astuner.environment.{candidate.name}"
    return Component(candidate=candidate, options=build_options(target, values, key=section))


def check_shape(candidate: Candidate, target: Any, key: str = KEY) -> None:
    """Raise `ConfigError` for a class that lacks a method of environments."""
    lacking = [name for name in METHODS if not callable(getattr(target, name, None))]
    if lacking:
        message = f"{candidate.blame} has no {', '.join(lacking)}; an environment has reset, step, evaluate and close, all async"
        raise ConfigError([Problem(key=key, message=message)])
    plain = [(name, method) for name in METHODS if is_plain_function(method := getattr(target, name))]
    if plain:
        named = ", ".join(f"{name}{format_place(method)}" for name, method in plain)
        message = f"{candidate.blame}: {named} must be awaited: write `async def`"
        raise ConfigError([Problem(key=key, message=message)])
