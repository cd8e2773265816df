"""The sample tasks, read by the reader that the options name."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any, cast

from astuner.contract.errors import ConfigError, DataError, Problem
from astuner.contract.protocols import Reader, RunInfo
from astuner.contract.schema import Task
from astuner.settings.config.aliases import VALUE_ALIASES
from astuner_datagen.drafts import find_query
from astuner_datagen.options import KEY, QueryReader

_TYPE = f"{KEY}.query_reader.type"


def sample_reader(options: QueryReader, run_info: RunInfo) -> Reader:
    """Make the reader of the samples; raises `ConfigError` if it does not exist, or does not take its options."""
    from astuner.settings.plugins.catalog import Catalog
    from astuner.settings.plugins.drivers import load, make
    from astuner.settings.plugins.options import build_options

    name = _resolve_alias(options.type)
    if name.rpartition("/")[2] == "data_generation":
        raise ConfigError(
            [Problem(key=_TYPE, message="generated tasks cannot be the samples for generating tasks; name another reader.")]
        )
    candidate = Catalog.discover(kinds=("reader",)).find("reader", name, config_dir=run_info.config_dir, key=_TYPE)
    made = build_options(load(candidate), _find_section(options, name), key=f"{KEY}.query_reader.{name}")
    return cast("Reader", make(candidate, made, run_info))


def read_samples(reader: Reader, limit: int) -> list[Task]:
    """Return the first samples; raises `DataError` if there are none, or one has no question."""
    samples = list(islice(reader.read("train"), limit))
    if not samples:
        raise DataError(f"{KEY}.query_reader: the reader yields no training task, so there is no sample to write tasks like")
    empty = next((task for task in samples if not find_query(task).strip()), None)
    if empty is not None:
        raise DataError(f"{KEY}.query_reader: sample '{empty.task_id}' has neither a query nor a message of a user")
    return samples


def _resolve_alias(name: str) -> str:
    """Return the current spelling of a reader's name."""
    return VALUE_ALIASES["task_reader.type"].get(name, name)


def _find_section(options: QueryReader, name: str) -> Mapping[str, Any]:
    sections = {_resolve_alias(key): section for key, section in options.sections.items()}
    # `distribution/name` chooses between two plugins of one name; the section keeps the plain name.
    return sections.get(name, sections.get(name.rpartition("/")[2], {}))
