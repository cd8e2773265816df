"""The files of tasks that a translated configuration names and that do not exist yet."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from astuner.contract.errors import ConfigError, Problem
from astuner.settings.config.loading import LoadedConfig
from astuner.settings.planning.chooser import Chooser
from astuner.settings.planning.component_checks import check_named_files
from astuner.settings.plugins.catalog import Catalog


def find_missing_files(loaded: LoadedConfig) -> Sequence[Problem]:
    """Return a problem for each file that is missing; none for a reader that is not installed or refuses its options."""
    section = loaded.config.task_reader
    chooser = Chooser(evolve(loaded, problems=()), Catalog.discover(kinds=("reader",)))
    options = section.get_options(section.type)
    reader = chooser.choose("reader", section.type, "astuner.task_reader.type", options, f"task_reader.{section.type}")
    if reader is not None:
        try:
            check_named_files(loaded, reader)
        except ConfigError as error:
            return error.problems
    return ()
