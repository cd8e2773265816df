"""Choosing the environments of a run, as far as that is known before its tasks are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from astuner.contract.errors import ConfigError
from astuner.episodes.rollout.environments.selection import KEY, EnvironmentChoice, check_shape
from astuner.settings.config.env_variables import BY_TASK, NO_ENVIRONMENT
from astuner.settings.config.places import make_problem
from astuner.settings.plugins.drivers import load, load_with_traits
from astuner.settings.plugins.raised_errors import blame_component

if TYPE_CHECKING:
    from astuner.settings.config.env_variables import ActionPreference, Environment
    from astuner.settings.config.loading import LoadedConfig
    from astuner.settings.planning.chooser import Chooser
    from astuner.settings.plugins.catalog import Catalog
    from astuner.settings.plugins.component import Component

WORDS = (BY_TASK, NO_ENVIRONMENT)


def choose_environments(
    chooser: Chooser, loaded: LoadedConfig, catalog: Catalog, reader: Component | None
) -> EnvironmentChoice | None:
    """Return the configuration's environments, None if no task has one; the chooser collects problems."""
    section, rollout = loaded.config.environment, loaded.config.rollout
    leads, shared = not rollout.use_agentscope_protocol, rollout.isolation != "process"
    named = section.environment_type
    chooser.attempt(lambda: _check(loaded, catalog))
    if named == NO_ENVIRONMENT:
        return None
    preference = choose_action_preference(section, reader)
    if named != BY_TASK:
        component = _choose(chooser, named, KEY, section.get_options(named))
        return EnvironmentChoice(everywhere=component, preference=preference, leads=leads, shared=shared)
    given = {
        name: component
        for name, options in section.sections.items()
        if (component := _choose(chooser, name, f"astuner.environment.{name}", options)) is not None
    }
    own = loaded.config.task_reader.type
    return EnvironmentChoice(given=given, reader=own, preference=preference, leads=leads, shared=shared)


def choose_action_preference(section: Environment, reader: Component | None) -> ActionPreference:
    """Return how actions are read off answers: as the configuration says, or else as the reader prefers."""
    if section.env_action_preference is not None or reader is None:
        return section.env_action_preference or "text"
    target, traits = load_with_traits(reader.candidate)
    preference: ActionPreference = target.prefer_actions(reader.options) if traits.prefers_actions else "text"
    return preference


def _choose(chooser: Chooser, name: str, key: str, options: Mapping[str, Any]) -> Component | None:
    component = chooser.choose("environment", name, key, options, f"environment.{name}", words=WORDS)
    if component is not None:
        chooser.attempt(lambda: _check_class(component, key))
    return component


def _check_class(component: Component, key: str) -> None:
    with blame_component(component.candidate):
        check_shape(component.candidate, load(component.candidate), key)


def _check(loaded: LoadedConfig, catalog: Catalog) -> None:
    """Raise `ConfigError` for what cannot be, whatever the environment is like."""
    section, rollout = loaded.config.environment, loaded.config.rollout
    problems = []
    if not rollout.use_agentscope_protocol and section.environment_type == NO_ENVIRONMENT:
        message = "rollout.use_agentscope_protocol is false, so an environment has to lead. Name one, or play a workflow."
        problems.append(make_problem(KEY, message, loaded.locate))
    elif not rollout.use_agentscope_protocol and section.environment_type == BY_TASK and not catalog.candidates("environment"):
        message = (
            "rollout.use_agentscope_protocol is false, so an environment has to lead, and none is installed. "
            "Install one, or name your own as ./environment.py:MyEnvironment."
        )
        problems.append(make_problem(KEY, message, loaded.locate))
    if rollout.isolation == "process" and (not rollout.use_agentscope_protocol or section.environment_type not in WORDS):
        message = (
            "an environment lives in the rollout process, beside the judge that looks at it, and cannot be handed to another "
            "one. Use thread, which keeps an environment that blocks from holding up the others, or async."
        )
        problems.append(make_problem("astuner.rollout.isolation", message, loaded.locate))
    if problems:
        raise ConfigError(problems)
