"""A configuration: whether it is valid, and everything that it needs from this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from attrs import evolve

from astuner.contract.errors import AstunerError, ConfigError, Problem, SeveralStages
from astuner.settings.config.loading import LoadedConfig, examine_config
from astuner.settings.config.places import sort_problems
from astuner.settings.planning.plan import plan_run
from astuner.settings.plugins.catalog import Catalog
from astuner.settings.plugins.drivers import load_with_traits
from astuner_tools.doctor.backbones import backbone_rows, find_common_problems, try_backbones
from astuner_tools.doctor.model import model_rows
from astuner_tools.doctor.packages import extension_rows
from astuner_tools.doctor.ports import port_rows
from astuner_tools.doctor.rows import Row
from astuner_tools.doctor.space import space_rows
from astuner_tools.stages.planned_stage import plan_stages


def configuration_rows(conf: Path) -> Iterator[Row]:
    """Yield the state of a configuration, and of all that it needs; of a file that is not YAML only its problems."""
    conf = conf.absolute()
    try:
        loaded = examine_config(conf)
    except ConfigError as error:
        yield from _problem_rows(error.problems)
        detail = "model, ports, disk and extensions are checked once the configuration can be loaded"
        yield Row(area="configuration", what="the rest", status="warning", detail=detail)
        yield from backbone_rows(try_backbones(conf, Catalog.discover(), None), None, error.problems)
        return
    except SeveralStages as stages:
        yield from _inspect_stages(stages, conf)
        return
    hide = loaded.secrets.hide_in_tree
    for row in _inspect_loaded(loaded, conf):
        yield evolve(row, what=hide(row.what), detail=hide(row.detail), remedy=hide(row.remedy))


def _inspect_stages(several: SeveralStages, conf: Path) -> Iterator[Row]:
    try:
        stages = plan_stages(several, conf, (), None)
    except ConfigError as error:
        yield from _problem_rows(error.problems)
        return
    for stage in stages:
        detail = f"valid, with the backbone {stage.plan.backbone.candidate.name}"
        yield Row(area="configuration", what=stage.title, detail=detail)
    yield from port_rows(stages[0].plan.loaded.config)
    yield from space_rows(stages[0].directory.path)


def _inspect_loaded(loaded: LoadedConfig, conf: Path) -> Iterator[Row]:
    config = loaded.config
    catalog = Catalog.discover(disabled=config.plugins.disabled)
    trials = try_backbones(conf, catalog, config.backbone)
    # What is wrong with the backbone that the file names may be right with another.
    problems = tuple(sort_problems(dict.fromkeys((*loaded.problems, *find_common_problems(trials)))))
    yield from _problem_rows(problems)
    if not problems:
        yield Row(area="configuration", what=conf.name, detail="valid")
    for notice in loaded.notices:
        yield Row(area="configuration", what="notice", detail=notice)
    faulty = any(problem.key is not None and problem.key.startswith("astuner.model") for problem in loaded.problems)
    if config.model.path and not faulty:
        # Where nothing is trained, the engine may have its own model, or none.
        weightless = config.rollout.name != "auto" and not _trains(catalog, config.backbone, conf)
        yield from model_rows(config.model.path, weightless=weightless)
    yield from port_rows(config)
    yield from space_rows(Path(config.experiment_dir))
    yield from extension_rows(catalog, config.plugins.options)
    yield from backbone_rows(trials, config.backbone, problems)
    with suppress(AstunerError):
        for one in plan_run(conf).settle_values():
            yield Row(area="configuration", what=one.key, detail=f"{one.value} ({one.because})")


def _trains(catalog: Catalog, backbone: str, conf: Path) -> bool:
    with suppress(AstunerError):
        candidate = catalog.find("backbone", backbone, config_dir=conf.parent, key="astuner.backbone")
        trains: bool = load_with_traits(candidate)[1].trains
        return trains
    return True


def _problem_rows(problems: tuple[Problem, ...]) -> Iterator[Row]:
    for problem in problems:
        yield Row(area="configuration", what=problem.key or "file", status="broken", detail=str(problem))
