"""The reader of a configuration, without the rest of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from astuner.contract.errors import UsageError
from astuner.contract.protocols import Reader, ReaderTraits, RunInfo, read_traits
from astuner.contract.schema import Split

SPLITS: Sequence[Split] = ("train", "validation")


def make_configured_reader(conf: Path, overrides: Sequence[str]) -> Reader:
    """Make the reader that a YAML names, as a run does; raises `ConfigError` with all its mistakes."""
    from astuner.settings.config.loading import load_config
    from astuner.settings.planning.chooser import Chooser
    from astuner.settings.plugins.catalog import Catalog
    from astuner.settings.plugins.hooks import Hooks

    loaded = load_config(conf, overrides)
    config = loaded.config
    catalog = Catalog.discover(disabled=config.plugins.disabled)
    chooser = Chooser(loaded, catalog)
    name = config.task_reader.type
    chosen = chooser.choose(
        "reader", name, "astuner.task_reader.type", config.task_reader.get_options(name), f"task_reader.{name}"
    )
    chooser.finish()
    if chosen is None:
        raise AssertionError("a missing component is a problem, and finish() raises problems")
    info = RunInfo(
        project_name=config.project_name,
        experiment_name=config.experiment_name,
        backbone=config.backbone,
        directory=Path(config.experiment_dir),
        config_dir=loaded.directory,
        seed=config.seed,
        # No run: looking at tasks costs nothing and writes nothing into a run directory.
        attempt=0,
        config=config,
        user_keys=loaded.user_keys,
        conf=loaded.path,
        overrides=loaded.overrides,
    )
    hooks = Hooks(catalog, options=config.plugins.options)
    hooks.check_pending()
    return hooks.make_reader(chosen.candidate, chosen.options, info)


def check_generated(reader: Reader, split: Split) -> None:
    """Raise `UsageError` if reading would first generate: looking at tasks must cost nothing."""
    if not read_traits(reader, ReaderTraits).may_generate:
        return
    first: str | None = cast("Any", reader).would_generate(split)
    if first is not None:
        raise UsageError(first)
