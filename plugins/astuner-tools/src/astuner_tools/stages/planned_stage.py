"""All stages of a file, planned before the first of them starts."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from astuner.contract.errors import ConfigError, Problem, SeveralStages, UsageError
from astuner.contract.protocols import BackboneTraits, read_traits
from astuner.episodes.containment.process_state import restore_process_state
from astuner.runs.driver.run_directories import choose_directory, is_throwaway
from astuner.runs.store.directory import RunDirectory
from astuner.settings.config.places import format_place
from astuner.settings.config.trees import get
from astuner.settings.planning.own_venv import find_venv_of
from astuner.settings.planning.plan import Plan, plan_run
from astuner.settings.plugins.drivers import load
from astuner_tools.stages.choosing import MODEL, name_in_stage
from astuner_tools.stages.demonstrations import Demonstrations, read_section

_MODEL_KEYS = ("model.path", "astuner.model.path")


@frozen(kw_only=True)
class PlannedStage:
    """One stage, checked."""

    name: str
    number: int
    """From 1."""
    of: int
    """How many stages there are."""
    plan: Plan
    """Of a model like the one that it will begin with, which may not be there yet."""
    overrides: tuple[str, ...]
    """What `--set` gives to its run."""
    demonstrations: Demonstrations | None
    """What it trains on; None plays episodes."""
    follows: bool
    """Whether it begins with the weights that the stage before ends with."""
    begins: str
    """The model that it begins with, which may not be there yet."""

    @property
    def directory(self) -> RunDirectory:
        """The directory of its run."""
        return RunDirectory(choose_directory(self.plan))

    @property
    def model(self) -> Path:
        """Where the model goes that it ends with."""
        return self.directory.path / MODEL

    @property
    def trains(self) -> bool:
        """Whether there are other weights at its end."""
        return read_traits(load(self.plan.backbone.candidate), BackboneTraits).trains and not is_throwaway(self.plan)

    @property
    def has_begun(self) -> bool:
        """Whether its directory holds work, of a run that is kept."""
        directory = self.directory
        return not is_throwaway(self.plan) and (directory.holds_work or directory.state.get("status") == "finished")

    @property
    def title(self) -> str:
        """What it is called in messages."""
        return f"stage {self.number} of {self.of}, {self.name}"


def plan_stages(several: SeveralStages, conf: Path, overrides: Sequence[str], backbone: str | None) -> list[PlannedStage]:
    """Plan every stage; raises `ConfigError` with the problems of all of them, each once, before anything is started.

    A stage whose model is made by the one before is planned with the model that the file names, which has the same shape.
    """
    planned: list[PlannedStage] = []
    problems: dict[tuple[Any, ...], Problem] = {}
    with tempfile.TemporaryDirectory(prefix="astuner-stages-") as empty:
        like: str | None = None
        for index, name in enumerate(several.names):
            stage, items = several.stages[index], (*overrides, f"stage={name}")
            follows = index > 0 and get(stage, "model.path") is None
            if index:
                # What the command line names is what the first stage begins with.
                items = tuple(item for item in items if item.partition("=")[0].strip() not in _MODEL_KEYS)
            section = stage.get("demonstrations")
            try:
                demonstrations = read_section(section, stage, index, conf, several.places) if "demonstrations" in stage else None
                if demonstrations is not None and demonstrations.tiny and not follows:
                    like = empty
                stand_in = (f"model.path={json.dumps(like)}",) if like is not None and (follows or like == empty) else ()
                with restore_process_state(conf.absolute().parent):
                    _check_venv(conf, items, backbone, name)
                    plan = plan_run(conf, [*items, *stand_in], backbone)
                    if like != empty:
                        plan.check_memory()
                    before = planned[-1] if follows and planned else None
                    if before and before.demonstrations is None and before.plan.loaded.config.model.adapters:
                        message = (
                            f"the stage before, '{before.name}', ends with several models (model.adapters), and a stage "
                            "begins with one. Let that be the last stage, or give this one a model.path."
                        )
                        raise ConfigError([Problem(key=f"astuner.stages[{index}]", message=message)])
                    if demonstrations is not None:
                        demonstrations.check(plan, f"stages[{index}].demonstrations")
            except ConfigError as error:
                for problem in error.problems:
                    found = name_in_stage(problem, index, several.places)
                    problems.setdefault((found.key, found.message, format_place(_find_place(found))), found)
                continue
            if not follows and like != empty:
                like = plan.loaded.config.model.path
            begins, follows_weights = _find_beginning(plan, planned, follows=follows)
            if not follows_weights:
                items = (*items, f"model.path={json.dumps(begins)}")
            planned.append(
                PlannedStage(
                    name=name,
                    number=index + 1,
                    of=len(several.names),
                    plan=plan,
                    overrides=items,
                    demonstrations=demonstrations,
                    follows=follows,
                    begins=begins,
                )
            )
    if problems:
        raise ConfigError(list(problems.values()))
    return planned


def _find_beginning(plan: Plan, before: Sequence[PlannedStage], *, follows: bool) -> tuple[str, bool]:
    """Return the model that a stage begins with, and whether that is where its configuration looks for it anyway.

    After a stage that trains no weights it is what that one began with; for a look, what a training has left there if it has.
    """
    if not follows or not before:
        return plan.loaded.config.model.path, True
    last = before[-1]
    usual = Path(last.plan.loaded.config.experiment_dir) / MODEL
    if last.trains or last.demonstrations is not None or usual.is_dir():
        return str(usual), True
    return last.begins, False


def check_stages(several: SeveralStages, conf: Path, overrides: Sequence[str], backbone: str | None) -> tuple[str, ...]:
    """Check every stage as `astuner config validate` checks a run; return what is to be noticed about them, each once."""
    return tuple(dict.fromkeys(text for stage in plan_stages(several, conf, overrides, backbone) for text in stage.plan.notices))


def name_problems(error: ConfigError, stage: PlannedStage, several: SeveralStages) -> ConfigError:
    """Return an error whose keys are those of the file."""
    return ConfigError([name_in_stage(problem, stage.number - 1, several.places) for problem in error.problems])


def _find_place(problem: Problem) -> tuple[Path, int] | None:
    return None if problem.file is None else (problem.file, problem.line or 0)


def _check_venv(conf: Path, items: Sequence[str], backbone: str | None, name: str) -> None:
    if (directory := find_venv_of(conf, items, backbone, lambda _: None)) is not None:
        raise UsageError(
            f"stages: '{name}' names a backbone that runs in another environment than the first stage ({directory}). Give all "
            f"stages one backbone, or play it on its own when the stage before is finished: --set stage={name}"
        )
