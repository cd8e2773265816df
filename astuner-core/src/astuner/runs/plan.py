"""From a YAML to everything a run is made of, by name and with checked options: all that can fail without a model fails here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from astuner.config.faults import closest
from astuner.errors import ConfigError, PluginError, Problem
from astuner.protocols import Reader, RunInfo
from astuner.rollout.recipe import Component, Recipe
from astuner.rollout.sampler import TaskSampler
from astuner.runs.extension_options import check_extension_options
from astuner.runs.own_code import check_own_code, names_code

if TYPE_CHECKING:
    from astuner.config.loading import LoadedConfig
    from astuner.config.native import Native
    from astuner.plugins.catalog import Candidate, Catalog

OWN_JUDGE = "customized_protocol"
"""The `judge_type` that means: the judge named by `judge_protocol`, or the workflow's own rewards."""


@frozen(kw_only=True)
class Plan:
    """A run, before anything of it is alive."""

    loaded: LoadedConfig
    catalog: Catalog
    recipe: Recipe
    reader: Component
    loggers: tuple[Component, ...]
    backbone: Component
    estimator: Component
    native: Native | None
    """The backbone's own configuration; None for one without alignment."""
    notices: tuple[str, ...]

    def run_info(self, *, attempt: int = 1) -> RunInfo:
        """Return what the run's components may know."""
        config = self.loaded.config
        return RunInfo(
            project_name=config.project_name,
            experiment_name=config.experiment_name,
            backbone=self.backbone.candidate.name,
            directory=Path(config.experiment_dir),
            config_dir=self.loaded.path.parent,
            seed=config.seed,
            config=config,
            user_keys=self.loaded.user_keys,
            attempt=attempt,
            native=self.native.tree if self.native else {},
        )

    def sample_tasks(self, reader: Reader) -> TaskSampler:
        """Return the run's tasks in their order; reads each split once."""
        config = self.loaded.config
        return TaskSampler(
            reader,
            batch_size=config.data.train_batch_size,
            epochs=config.trainer_common.total_epochs,
            seed=config.seed,
            total_steps=config.trainer_common.total_training_steps,
        )


def plan_run(conf: Path, overrides: Sequence[str] = (), backbone: str | None = None) -> Plan:
    """Load a configuration and choose every component; raises `ConfigError` with all problems at once."""
    from astuner.config.loading import load_config
    from astuner.plugins.catalog import Catalog

    loaded = load_config(conf, overrides, backbone)
    catalog = Catalog.discover(disabled=loaded.config.plugins.disabled)
    chooser = _Chooser(loaded, catalog)
    config = loaded.config
    chooser.attempt(lambda: _require(catalog, config.plugins.required))
    chooser.attempt(lambda: _check_disabled(catalog, config.plugins.disabled))
    chooser.attempt(lambda: check_own_code(loaded))
    chooser.attempt(lambda: check_extension_options(loaded, catalog))
    chosen_backbone = chooser.choose("backbone", config.backbone, "astuner.backbone", {})
    tracker_type = config.context_tracker.context_tracker_type
    tracker = chooser.choose(
        "tracker",
        tracker_type,
        "astuner.context_tracker.context_tracker_type",
        config.context_tracker.options_of(tracker_type),
        f"context_tracker.{tracker_type}",
    )
    engine = _engine(chooser, loaded, chosen_backbone)
    estimator_key = "astuner.trainer_common.algorithm.adv_estimator"
    estimator = chooser.choose("estimator", config.trainer_common.algorithm.adv_estimator, estimator_key, {})
    loggers = tuple(found for found in _loggers(chooser, loaded) if found is not None)
    notices = list(loaded.notices)
    idle = catalog.without_effect(config.plugins.disabled)
    notices += [f"plugins.disabled: '{name}' is not installed, so there is nothing to leave out." for name in idle]
    if chosen_backbone is not None:
        notices += chooser.check_honoured(chosen_backbone)
    # What may be the user's own code comes last: it is imported only when nothing else is known to be wrong.
    reader_type = config.task_reader.type
    reader = chooser.choose(
        "reader",
        reader_type,
        "astuner.task_reader.type",
        config.task_reader.options_of(reader_type),
        f"task_reader.{reader_type}",
    )
    judges = tuple(judge for judge in _judges(chooser, loaded) if judge is not None)
    native = chooser.align(chosen_backbone) if chosen_backbone is not None else None
    notices += native.notices if native else ()
    chooser.finish()
    _check_workflow(loaded)
    if chosen_backbone is None or reader is None or tracker is None or estimator is None:
        raise AssertionError("a missing component is a problem, and finish() raises problems")
    recipe = Recipe(workflow=config.rollout.user_workflow or "", judges=judges, tracker=tracker, engine=engine)
    return Plan(
        loaded=loaded,
        catalog=catalog,
        recipe=recipe,
        reader=reader,
        loggers=loggers,
        backbone=chosen_backbone,
        estimator=estimator,
        native=native,
        notices=tuple(notices),
    )


class _Chooser:
    """Chooses components and collects every problem on the way."""

    def __init__(self, loaded: LoadedConfig, catalog: Catalog) -> None:
        self._loaded, self._catalog = loaded, catalog
        self._problems: list[Problem] = []

    def attempt(self, check: Callable[[], None]) -> None:
        """Run a check and keep its problems."""
        try:
            check()
        except ConfigError as error:
            self._problems.extend(self._placed(problem) for problem in error.problems)
        except PluginError as error:
            self._problems.append(Problem(message=str(error)))

    def choose(
        self,
        kind: str,
        spec: str,
        key: str,
        values: Mapping[str, Any],
        section: str | None = None,
        words: Sequence[str] = (),
        why: str = "",
    ) -> Component | None:
        """Return the component a key names, its options structured; None after noting what is wrong with it.

        `words` may stand there too and are no component's name; `why` begins what is said about one that the user did not name.
        Code of the user is left alone where something is wrong already.
        """
        from astuner.plugins.drivers import load
        from astuner.plugins.options import options_for

        if names_code(spec) and self._problems:
            return None
        try:
            candidate = self._usable(self._found(kind, spec, key, why), key)
            options = options_for(
                load(candidate), values, key=f"astuner.{section}" if section else key, locate=self._loaded.locate
            )
        except ConfigError as error:
            problems = [evolve(one, suggestion=one.suggestion or closest(spec, words)) for one in error.problems]
            self._problems.extend(map(self._placed, problems))
            return None
        except PluginError as error:
            self._problems.append(self._placed(Problem(key=key, message=str(error))))
            return None
        return Component(candidate=candidate, options=options)

    def _found(self, kind: str, spec: str, key: str, why: str) -> Candidate:
        try:
            return self._find(kind, spec, key)
        except ConfigError as error:
            raise ConfigError([evolve(one, message=f"{why}{one.message}") for one in error.problems]) from error

    def check_honoured(self, backbone: Component) -> list[str]:
        """Note the keys that the user set and the backbone does not honour; return what to tell about the inapplicable ones."""
        from astuner.config.honour import HonourTable, check_honoured
        from astuner.plugins.drivers import load

        table = HonourTable.of(load(backbone.candidate), backbone.candidate.name)
        problems, notices = check_honoured(self._loaded, table)
        self._problems.extend(problems)
        return notices

    def align(self, backbone: Component) -> Native | None:
        """Return the backbone's own configuration, after noting what is wrong with it.

        The trainer, which may be heavy, is asked only when nothing else is known to be wrong.
        """
        from astuner.config.native import align
        from astuner.plugins.drivers import load

        alignment = getattr(load(backbone.candidate), "alignment", None)
        root = backbone.candidate.name if alignment is None else alignment.root
        native = None if alignment is None else align(alignment, self._loaded, ask_trainer=not self._problems)
        self._problems.extend(native.problems if native else ())
        if alignment is None and root in self._loaded.native:
            message = (
                f"the backbone '{root}' has no native configuration, so nothing here would have an effect. Remove the section."
            )
            self._problems.append(self._placed(Problem(key=root, message=message)))
        return native

    def finish(self) -> None:
        """Raise what was collected."""
        if self._problems:
            hide = self._loaded.secrets.hide_in_problem
            raise ConfigError(list(dict.fromkeys(map(hide, self._problems))))

    def _find(self, kind: str, spec: str, key: str) -> Candidate:
        try:
            return self._catalog.find(kind, spec, config_dir=self._loaded.path.parent, key=key)
        except ConfigError as error:
            from astuner.runs.earlier import way_back

            back = way_back(Path(self._loaded.config.experiment_dir), kind, spec)
            if back is None:
                raise
            told = [evolve(problem, message=f"{problem.message.rstrip('.')}. {back}") for problem in error.problems]
            raise ConfigError(told) from error

    def _usable(self, candidate: Candidate, key: str) -> Candidate:
        if candidate.missing:
            needs = ", ".join(candidate.missing)
            raise ConfigError(
                [Problem(key=key, message=f"{candidate.blame} needs {needs}, which is not installed: {candidate.remedy}")]
            )
        return candidate

    def _placed(self, problem: Problem) -> Problem:
        if problem.line is not None or problem.key is None:
            return problem
        place = self._loaded.locate(problem.key)
        return problem if place is None else evolve(problem, file=place[0], line=place[1])


def _engine(chooser: _Chooser, loaded: LoadedConfig, backbone: Component | None) -> Component | None:
    """Return the engine that the user names, or the one that the backbone takes for `auto`; None where it brings its own."""
    from astuner.plugins.drivers import load

    rollout, key = loaded.config.rollout, "astuner.rollout.name"
    name: str | None = rollout.name
    why = ""
    if name == "auto":
        name = getattr(load(backbone.candidate), "default_engine", None) if backbone is not None else None
        why = f"the backbone '{loaded.config.backbone}' takes the engine '{name}' where none is named, and: "
    if name is None:
        return None
    return chooser.choose("engine", name, key, rollout.options_of(name), f"rollout.{name}", words=("auto",), why=why)


def _judges(chooser: _Chooser, loaded: LoadedConfig) -> list[Component | None]:
    judge = loaded.config.task_judge
    if judge.judges:
        found = []
        for position, choice in enumerate(judge.judges):
            place = f"task_judge.judges[{position}]"
            section = f"{place}.options" if choice.options else f"task_judge.{choice.judge}"
            options = choice.options or judge.options_of(choice.judge)
            one = chooser.choose("judge", choice.judge, f"astuner.{place}.judge", options, section)
            found.append(None if one is None else evolve(one, weight=choice.weight))
        return found
    name = judge.judge_protocol if judge.judge_type == OWN_JUDGE else judge.judge_type
    if name is None:
        return []
    key = "judge_protocol" if judge.judge_type == OWN_JUDGE else "judge_type"
    section = f"task_judge.{name}"
    return [chooser.choose("judge", name, f"astuner.task_judge.{key}", judge.options_of(name), section, words=(OWN_JUDGE,))]


def _loggers(chooser: _Chooser, loaded: LoadedConfig) -> list[Component | None]:
    key = "trainer_common.logger"
    # metrics.jsonl is part of every run directory.
    wanted: dict[str, tuple[str, Mapping[str, Any]]] = {"jsonl": (key, {})}
    for position, choice in enumerate(loaded.config.trainer_common.logger):
        wanted[choice.name] = (f"{key}[{position}]", choice.options)
    return [
        chooser.choose("logger", name, f"astuner.{place}", options, f"{place}.{name}")
        for name, (place, options) in wanted.items()
    ]


def _require(catalog: Catalog, required: Sequence[str]) -> None:
    from packaging.utils import canonicalize_name

    installed = {canonicalize_name(candidate.dist) for candidate in catalog.all() if candidate.dist}
    problems = [
        Problem(
            key=f"astuner.plugins.required[{position}]",
            message=f"'{name}' is not installed or is disabled: pip install {name}.",
            suggestion=closest(name, installed),
        )
        for position, name in enumerate(required)
        if canonicalize_name(name) not in installed
    ]
    if problems:
        raise ConfigError(problems)


def _check_disabled(catalog: Catalog, disabled: Sequence[str]) -> None:
    """Refuse a name that leaves nothing out and is like one that would; any other may be there for another machine."""
    names = {name for candidate in catalog.all() for name in (candidate.name, candidate.dist) if name is not None}
    idle = catalog.without_effect(disabled)
    similar = {position: closest(name, names) for position, name in enumerate(disabled) if name in idle}
    problems = [
        Problem(key=f"astuner.plugins.disabled[{position}]", message="nothing of this name is installed.", suggestion=meant)
        for position, meant in similar.items()
        if meant is not None
    ]
    if problems:
        raise ConfigError(problems)


def _check_workflow(loaded: LoadedConfig) -> None:
    from astuner.rollout.workflows import load_workflow

    target = loaded.config.rollout.user_workflow
    key = "astuner.rollout.user_workflow"
    place = loaded.locate(key)
    file, line = place if place is not None else (None, None)
    if target is None:
        raise ConfigError([Problem(key=key, message="no workflow: name yours, as ./agent.py:MyAgent or package.module:MyAgent")])
    try:
        load_workflow(target, loaded.path.parent)
    except PluginError as error:
        raise ConfigError([Problem(key=key, message=str(error).removeprefix(f"{key}: "), file=file, line=line)]) from error
