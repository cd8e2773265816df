"""What a configuration says about scores: its judges, and its estimators of advantages. Nothing else of it is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from astuner.contract.errors import AstunerError, UsageError
from astuner.contract.protocols import RunInfo
from astuner.settings.config.loading import load_config
from astuner.settings.config.structure_errors import FaultsError
from astuner.settings.config.structuring import make_converter
from astuner.settings.config.trainer import Algorithm
from astuner.settings.planning.chooser import Chooser
from astuner.settings.planning.judge_choice import OWN_JUDGE, list_named_judges
from astuner.settings.planning.machine_settings import make_run_info
from astuner.settings.planning.user_code import names_code
from astuner.settings.plugins.catalog import Catalog
from astuner.settings.plugins.component import Component

if TYPE_CHECKING:
    from astuner.runs.inspection.run import Run
    from astuner.settings.config.loading import LoadedConfig

UNUSED = ("model.path", "rollout.user_workflow")
"""Keys of what plays episodes: it may be missing."""

ESTIMATOR = "astuner.trainer_common.algorithm.adv_estimator"


@frozen(kw_only=True)
class ScoringChoice:
    """What makes rewards and advantages."""

    loaded: LoadedConfig
    catalog: Catalog
    judges: tuple[Component, ...]
    """None: the workflows gave the rewards."""
    specs: Mapping[str, str]
    """How the configuration names each judge, by the judge's name."""
    estimator: Component

    def describe_run(self, directory: Path) -> RunInfo:
        """Return what the judges may know: the configuration, and the directory of the replay."""
        return evolve(make_run_info(self.loaded, self.loaded.config.backbone, {}), directory=directory)

    def find_stored_estimator(self, run: Run, run_info: RunInfo) -> tuple[Component, RunInfo] | None:
        """Return the estimator that the run itself used, with its settings; None if they are lost, or it is not installed."""
        tree = run.config.get("trainer_common", {}).get("algorithm")
        try:
            algorithm = make_converter().structure(tree, Algorithm)
            chooser = Chooser(evolve(self.loaded, problems=()), self.catalog)
            found = chooser.choose("estimator", algorithm.adv_estimator, ESTIMATOR, {})
        except (AstunerError, FaultsError):
            return None
        config = run_info.config
        then = evolve(config, trainer_common=evolve(config.trainer_common, algorithm=algorithm))
        return None if found is None else (found, evolve(run_info, config=then))


def choose_scoring(conf: Path, overrides: Sequence[str] = (), judge: str | None = None) -> ScoringChoice:
    """Load a YAML and choose its judges and its estimator; raises `ConfigError` with all problems.

    `judge` replaces the judges by one: by that of this name in `task_judge.judges`, or by what `task_judge.judge_type` and
    `task_judge.judge_protocol` may name.
    """
    if not conf.is_file():
        raise UsageError(f"--conf {conf}: there is no such file; name the YAML with the new judge")
    loaded = load_config(conf, overrides, None, unused=UNUSED)
    named = list_named_judges(loaded.config.task_judge)
    if judge is not None:
        own = [evolve(one, terms=None) for one in named if judge in (one.known_as, one.spec)]
        if not own:
            loaded = load_config(conf, (*overrides, *_write_overrides(judge)), None, unused=UNUSED)
        named = own[:1] or list_named_judges(loaded.config.task_judge)
    catalog = Catalog.discover(disabled=loaded.config.plugins.disabled)
    chooser = Chooser(loaded, catalog)
    estimator = chooser.choose("estimator", loaded.config.trainer_common.algorithm.adv_estimator, ESTIMATOR, {})
    chosen = [(one.spec, one.choose(chooser)) for one in named]
    chooser.finish()
    if estimator is None:
        raise AssertionError("a missing component is a problem, and finish() raises problems")
    judges = [(spec, component) for spec, component in chosen if component is not None]
    return ScoringChoice(
        loaded=loaded,
        catalog=catalog,
        judges=tuple(component for _, component in judges),
        specs={find_name(component): spec for spec, component in judges},
        estimator=estimator,
    )


def find_name(judge: Component) -> str:
    """Return the name under which several judges keep what each has found."""
    return (judge.terms.name if judge.terms is not None else None) or judge.candidate.name


def list_stored_specs(run: Run) -> dict[str, str]:
    """Return how the run's own configuration named each judge, by the judge's name as far as that is written there."""
    section: Mapping[str, Any] = run.config.get("task_judge") or {}
    several = section.get("judges") or ()
    if several:
        return {one.get("name") or _shorten(one["judge"]): one["judge"] for one in several}
    spec = section.get("judge_type")
    spec = section.get("judge_protocol") if spec in (None, OWN_JUDGE) else spec
    return {_shorten(spec): spec} if spec else {}


def _shorten(spec: str) -> str:
    """Return the name of a class, or of an installed judge."""
    return spec.replace("->", ":").rpartition(":")[2].rpartition("/")[2]


def _write_overrides(judge: str) -> tuple[str, ...]:
    if names_code(judge):
        return ("task_judge.judges=[]", f"task_judge.judge_type={OWN_JUDGE}", f"task_judge.judge_protocol={judge}")
    return ("task_judge.judges=[]", f"task_judge.judge_type={judge}")
