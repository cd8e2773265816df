"""The user's code that a configuration names by its place, checked before it is run."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from astuner.contract.errors import ConfigError, Problem
from astuner.settings.config.loading import LoadedConfig
from astuner.settings.config.places import make_problem
from astuner.settings.config.sections import COMPONENT_KEYS
from astuner.settings.plugins.source_names import find_missing_name
from astuner.settings.plugins.specs import parse
from astuner.shared.install_hints import explain_missing_package


def names_code(spec: str) -> bool:
    """Whether a text names a class by its place, and not an installed component."""
    return ":" in spec or "->" in spec or spec.strip().endswith(".py")


def check_user_code(loaded: LoadedConfig) -> None:
    """Raise `ConfigError` for every file, module or class that does not exist; nothing is imported."""
    problems = [problem for key, spec in _list_named_code(loaded) if (problem := _find_problem(spec, key, loaded)) is not None]
    if problems:
        raise ConfigError(problems)


def _list_named_code(loaded: LoadedConfig) -> Iterator[tuple[str, str]]:
    config = loaded.config
    named = {key: attrgetter(key)(config) for key in (*COMPONENT_KEYS, "rollout.user_workflow")}
    if config.task_judge.judge_type != "customized_protocol":
        del named["task_judge.judge_protocol"]
    named |= {f"task_judge.judges[{place}].judge": choice.judge for place, choice in enumerate(config.task_judge.judges)}
    named |= {f"trainer_common.logger[{place}]": choice.name for place, choice in enumerate(config.trainer_common.logger)}
    for key, spec in named.items():
        if spec is not None and names_code(spec):
            yield f"astuner.{key}", spec


def _find_problem(spec: str, key: str, loaded: LoadedConfig) -> Problem | None:
    missing = find_missing_name(spec, loaded.directory)
    if missing is not None:
        message = f"{missing.message}.{explain_missing_package(spec)}"
        return make_problem(key, message, loaded.locate, missing.suggestion, missing.kind)
    try:
        parse(spec, loaded.directory)
    except ValueError as error:
        return make_problem(key, f"{spec!r}: {error}.", loaded.locate)
    return None
