"""From a YAML to everything a run is made of, by name and with checked options: all that can fail without a model fails here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from astuner.contract.errors import ConfigError, PluginError
from astuner.contract.protocols import Reader, ReaderTraits, RunInfo, SettledValue, read_traits
from astuner.episodes.rollout.environments.selection import EnvironmentChoice, TasksToPlay
from astuner.episodes.rollout.recipe import Recipe
from astuner.episodes.rollout.sampler import TaskSampler
from astuner.episodes.rollout.workflows import load_workflow
from astuner.settings.config.agent import is_command
from astuner.settings.config.loading import examine_config
from astuner.settings.config.places import make_problem
from astuner.settings.config.structure_errors import find_closest
from astuner.settings.planning.chooser import Chooser
from astuner.settings.planning.component_checks import ComponentChecks, check_named_files, needs_model
from astuner.settings.planning.detector_choice import choose_detectors, idle_notices
from astuner.settings.planning.engine_choice import choose_engine
from astuner.settings.planning.environment_choice import choose_environments
from astuner.settings.planning.judge_choice import RowsToJudge, find_judge_notices, list_named_judges
from astuner.settings.planning.machine_settings import make_run_info, settle_values
from astuner.settings.planning.plugins_section import check_disabled, check_extension_options, check_required
from astuner.settings.planning.tracker_choice import find_tracker_notices
from astuner.settings.planning.user_code import check_user_code
from astuner.settings.plugins.catalog import Catalog
from astuner.settings.plugins.component import Component
from astuner.settings.plugins.drivers import load, load_with_traits

if TYPE_CHECKING:
    from astuner.episodes.rollout.workflows import LoadedWorkflow
    from astuner.settings.config.components import OpenSection
    from astuner.settings.config.loading import LoadedConfig
    from astuner.settings.config.native import Native
    from astuner.settings.memory_estimate.parts import Hardware
    from astuner.settings.planning.memory_plan import MemoryReport


@frozen(kw_only=True)
class Plan:
    """A run, before anything of it is alive."""

    loaded: LoadedConfig
    catalog: Catalog
    recipe: Recipe
    reader: Component
    loggers: tuple[Component, ...]
    backbone: Component
    native: Native | None
    """The backbone's own configuration; None for one without alignment."""
    notices: tuple[str, ...]
    summed_up: frozenset[str] = frozenset()
    """Those of the notices that the first line of a run sums up: they are about choices, and name no mistake."""
    idle_keys: tuple[str, ...] = ()
    """Keys that the user set and that have no meaning for the backbone."""

    def run_info(self, *, attempt: int = 1, fresh: bool = False) -> RunInfo:
        """Return what the run's components may know."""
        info = make_run_info(self.loaded, self.backbone.candidate.name, self.native.tree if self.native else {})
        return evolve(info, attempt=attempt, fresh=fresh)

    def settle_values(self) -> list[SettledValue]:
        """Return what settings become on this machine, as the backbone and the engine say."""
        return settle_values(filter(None, (self.backbone, self.recipe.engine)), self.run_info())

    def plan_memory(self, hardware: Hardware) -> MemoryReport:
        """Return what the run would hold in memory on these machines."""
        from astuner.settings.planning.memory_plan import plan_memory

        return plan_memory(filter(None, (self.backbone, self.recipe.engine)), self.run_info(), hardware)

    def check_memory(self) -> list[str]:
        """Raise `ConfigError` if the run does not fit this machine; return why instead, with `memory_check: warn`."""
        components = [component for component in (self.backbone, self.recipe.engine) if component is not None]
        if not any(load_with_traits(component.candidate)[1].plans_memory for component in components):
            return []
        from astuner.settings.planning.memory_plan import look_at_hardware

        problems = list(self.plan_memory(look_at_hardware()).problems)
        if problems and self.loaded.config.trainer_common.memory_check == "refuse":
            raise ConfigError(problems)
        return [str(problem) for problem in problems]

    def sample_tasks(self, reader: Reader, report: Callable[[str], None] = lambda text: None) -> TaskSampler:
        """Return the run's tasks in their order; reads each split once. `report` gets what was changed in them."""
        config, choice = self.loaded.config, self.recipe.environments
        return TaskSampler(
            reader,
            checks=(TasksToPlay(choice, self.catalog).check, RowsToJudge(self.recipe.judges).check),
            batch_size=config.data.train_batch_size,
            epochs=config.trainer_common.total_epochs,
            seed=config.seed,
            total_steps=config.trainer_common.total_training_steps,
            shuffle=config.data.shuffle,
            max_draws=config.trainer_common.algorithm.filter_groups.max_num_gen_batches - 1,
            report=report,
        )


def plan_run(conf: Path, overrides: Sequence[str] = (), backbone: str | None = None, *, trains: bool = True) -> Plan:
    """Load a configuration and choose every component; raises `ConfigError` with all problems at once.

    A plan that only evaluates (`trains=False`) may hold what training must not.
    """
    loaded = examine_config(conf, overrides, backbone)
    catalog = Catalog.discover(disabled=loaded.config.plugins.disabled)
    chooser = Chooser(loaded, catalog)
    config = loaded.config
    chooser.attempt(lambda: check_required(catalog, config.plugins.required))
    chooser.attempt(lambda: check_disabled(catalog, config.plugins.disabled))
    chooser.attempt(lambda: check_user_code(loaded))
    chooser.attempt(lambda: check_extension_options(loaded, catalog))
    chosen_backbone = chooser.choose("backbone", config.backbone, "astuner.backbone", {})
    chosen_engine = choose_engine(chooser, loaded, catalog, chosen_backbone)
    engine = chosen_engine.component
    # Before all that may be the user's code, which is not imported after a problem.
    if not needs_model(chosen_backbone, engine):
        chooser.forgive_missing_model()
    tracker = _choose_named(chooser, "tracker", "context_tracker.context_tracker_type", config.context_tracker)
    estimator = _choose_named(chooser, "estimator", "trainer_common.algorithm.adv_estimator", config.trainer_common.algorithm)
    loss = _choose_named(chooser, "loss", "trainer_common.algorithm.policy_loss", config.trainer_common.algorithm)
    sampler = _choose_named(chooser, "sampler", "data.sampler", config.data)
    loggers = tuple(found for found in _loggers(chooser, loaded) if found is not None)
    chosen: dict[str, Any] = {"backbone": chosen_backbone, "engine": engine, "estimator": estimator, "loss": loss}
    checks = ComponentChecks(loaded=loaded, catalog=catalog, **chosen, sampler=sampler)
    chooser.attempt(lambda: checks.run(trains=trains))
    summed_up, idle_keys = [chosen_engine.notice] if chosen_engine.notice else [], list[str]()
    notices = [*summed_up, *_find_backbone_notices(loaded, catalog), *loaded.notices, *find_tracker_notices(loaded, tracker)]
    idle = catalog.find_ineffective(config.plugins.disabled)
    notices += idle_notices(loaded)
    notices += [f"plugins.disabled: '{name}' is not installed, so there is nothing to leave out." for name in idle]
    if chosen_backbone is not None:
        chooser.check_venv(chosen_backbone)
        if load_with_traits(chosen_backbone.candidate)[1].trains and config.model.path:
            notices += _find_context_notices(config.model.path, config.rollout.max_model_len)
        unused = chooser.check_honoured(chosen_backbone, engine)
        idle_keys = chooser.list_idle_keys(chosen_backbone, engine)
        summed_up += unused
        notices += unused
        chooser.check_alignment(chosen_backbone)
    detectors = choose_detectors(chooser, loaded)
    # This workflow comes with a package, so it is looked at before the user's own code, with everything else.
    workflow = chooser.attempt(lambda: _check_workflow(loaded)) if is_command(config.rollout.user_workflow) else None
    in_sandboxes = any(key.partition(".")[0] in ("sandbox", "agent") for key in loaded.user_keys)
    # The user's own code comes last: it is imported only if there are no other problems, and then all of it.
    chooser.postpone_users_code()
    parts = _choose_parts(chooser, loaded, catalog)
    if chooser.reach_users_code():
        parts = _choose_parts(chooser, loaded, catalog)
        workflow = workflow or chooser.attempt(lambda: _check_workflow(loaded))
        notices += _find_workflow_notices(loaded, workflow) if workflow else []
        in_sandboxes = in_sandboxes or (workflow is not None and workflow.in_sandboxes is not None)
        chooser.attempt(lambda: notices.extend(find_judge_notices(loaded, parts.judges)))
    sandbox = _choose_named(chooser, "sandbox", "sandbox.type", config.sandbox) if in_sandboxes else None
    native = chooser.align(chosen_backbone) if chosen_backbone is not None else None
    notices += native.notices if native else ()
    chooser.finish()
    reader = parts.reader
    if chosen_backbone is None or reader is None or tracker is None or estimator is None or loss is None or sampler is None:
        raise AssertionError("a missing component is a problem, and finish() raises problems")
    recipe = Recipe(
        workflow=_choose_workflow(config.rollout.user_workflow, reader),
        judges=parts.judges,
        tracker=tracker,
        engine=engine,
        estimator=estimator,
        policy_loss=loss,
        sampler=sampler,
        catalog=catalog,
        environments=parts.environments,
        detectors=detectors,
        sandbox=sandbox,
    )
    return Plan(
        loaded=loaded,
        catalog=catalog,
        recipe=recipe,
        reader=reader,
        loggers=loggers,
        backbone=chosen_backbone,
        native=native,
        notices=tuple(notices),
        summed_up=frozenset(summed_up),
        idle_keys=tuple(idle_keys),
    )


@frozen(kw_only=True)
class _Parts:
    """The components that are most often the user's own."""

    reader: Component | None
    judges: tuple[Component, ...]
    environments: EnvironmentChoice | None


def _choose_parts(chooser: Chooser, loaded: LoadedConfig, catalog: Catalog) -> _Parts:
    section, key = loaded.config.task_reader, "astuner.task_reader.type"
    reader = known = _choose_named(chooser, "reader", "task_reader.type", section)
    names = [candidate.name for candidate in catalog.candidates("reader")]
    if reader is None and (meant := find_closest(section.type, names, likeness=0.8)) is not None:
        # What is wrong in the section of a reader whose name is misspelt is reported too.
        known = chooser.choose("reader", meant, key, section.get_options(meant), f"task_reader.{meant}")
    if known is not None:
        chooser.attempt(lambda: check_named_files(loaded, known))
    judges = [named.choose(chooser) for named in list_named_judges(loaded.config.task_judge)]
    return _Parts(
        reader=reader,
        judges=tuple(judge for judge in judges if judge is not None),
        environments=choose_environments(chooser, loaded, catalog, reader),
    )


def _choose_named(chooser: Chooser, kind: str, key: str, section: OpenSection) -> Component | None:
    """Return the component that a key of a section names, with its options from the same section."""
    place, _, field = key.rpartition(".")
    name = getattr(section, field)
    return chooser.choose(kind, name, f"astuner.{key}", section.get_options(name), f"{place}.{name}")


def _loggers(chooser: Chooser, loaded: LoadedConfig) -> list[Component | None]:
    key = "trainer_common.logger"
    # metrics.jsonl is part of every run directory.
    wanted: dict[str, tuple[str, Mapping[str, Any]]] = {"jsonl": (key, {})}
    for position, choice in enumerate(loaded.config.trainer_common.logger):
        wanted[choice.name] = (f"{key}[{position}]", choice.options)
    return [
        chooser.choose("logger", name, f"astuner.{place}", options, f"{place}.{name}")
        for name, (place, options) in wanted.items()
    ]


def _check_workflow(loaded: LoadedConfig) -> LoadedWorkflow | None:
    """Return the workflow, if there is one; raise `ConfigError` if it cannot be played."""
    target, key = loaded.config.rollout.user_workflow, "astuner.rollout.user_workflow"
    # Loading has checked that there is a workflow exactly where no environment leads.
    if target is None:
        return None
    try:
        found = load_workflow(target, loaded.path.parent)
    except PluginError as error:
        raise ConfigError([make_problem(key, str(error).removeprefix(f"{key}: "), loaded.locate)]) from error
    problems = list(found.find_problems(loaded.config, loaded.path.parent))
    if found.in_sandboxes is not None and loaded.config.rollout.isolation == "process":
        message = f"{target} runs programs in sandboxes, which belong to the rollout process. Use async or thread."
        problems.append(make_problem("astuner.rollout.isolation", message, loaded.locate))
    if problems:
        raise ConfigError(problems)
    return found


def _find_backbone_notices(loaded: LoadedConfig, catalog: Catalog) -> Iterator[str]:
    default = loaded.config.backbone
    if "backbone" not in loaded.user_keys:
        others = ", ".join(one.name for one in catalog.candidates("backbone") if one.name != default) or "no other"
        yield f"no backbone is named, so '{default}' plays, and nothing is trained; installed: {others} (--backbone)"


def _find_context_notices(model: str, wanted: int) -> Iterator[str]:
    from astuner.settings.memory_estimate.model_file import find_longest_context, read_model_config

    if wanted > (longest := find_longest_context(read_model_config(model, fetch=False) or {}) or wanted):
        yield (
            f"rollout.max_model_len is {wanted:,}, and the model was made for contexts of {longest:,} "
            f"(max_position_embeddings): set rollout.max_model_len to at most {longest}, and data.max_prompt_length and "
            "data.max_response_length so that they fit"
        )


def _find_workflow_notices(loaded: LoadedConfig, found: LoadedWorkflow) -> list[str]:
    if not found.blocks or found.adapted or loaded.config.rollout.isolation != "async":
        return []
    return [f"{loaded.config.rollout.user_workflow}{found.place} is a plain `def`, so each episode runs in a thread of its own"]


def _choose_workflow(named: str | None, reader: Component) -> str | None:
    """Return what to play; None if the environment leads."""
    brought = read_traits(load(reader.candidate), ReaderTraits).command_workflow if is_command(named) else None
    return brought or named
