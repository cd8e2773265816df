"""The section `plugins.options`: checked against the installed extensions before a run starts."""

from __future__ import annotations

from astuner.config.loading import LoadedConfig
from astuner.config.places import make_problem
from astuner.config.structure_errors import find_closest
from astuner.errors import ConfigError, PluginError, Problem
from astuner.plugins.catalog import Catalog


def check_extension_options(loaded: LoadedConfig, catalog: Catalog) -> None:
    """Raise `ConfigError` for sections of extensions that are not installed, and for wrong options.

    An extension that cannot be imported is not this configuration's fault: the run's hooks report it.
    """
    from astuner.plugins.drivers import load
    from astuner.plugins.options import build_options

    sections = loaded.config.plugins.options
    extensions = catalog.candidates("hook")
    names = {candidate.name for candidate in extensions}
    problems: list[Problem] = []
    for name in sorted(set(sections) - names):
        message = "no such extension is installed and enabled."
        problems.append(make_problem(_make_key(name), message, loaded.locate, find_closest(name, names)))
    for candidate in extensions:
        try:
            build_options(load(candidate), sections.get(candidate.name), key=_make_key(candidate.name), locate=loaded.locate)
        except ConfigError as error:
            problems.extend(error.problems)
        except PluginError:
            continue
    if problems:
        raise ConfigError(problems)


def _make_key(name: str) -> str:
    return f"astuner.plugins.options.{name}"
