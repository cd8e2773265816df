"""The judges that a YAML names, without the rest of its run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen

from astuner.contract.errors import UsageError
from astuner.contract.protocols import RunInfo

if TYPE_CHECKING:
    from astuner.contract.protocols import Candidate
    from astuner.settings.config.loading import LoadedConfig
    from astuner.settings.plugins.catalog import Catalog


@frozen(kw_only=True)
class ConfiguredJudge:
    """One judge with its options."""

    name: str
    """Its name in reports."""
    candidate: Candidate
    options: Any


@frozen(kw_only=True)
class JudgeSetup:
    """What `astuner judge` works with."""

    judges: tuple[ConfiguredJudge, ...]
    run_info: RunInfo
    loaded: LoadedConfig
    catalog: Catalog


def load_judges(conf: Path, overrides: Sequence[str], name: str | None = None) -> JudgeSetup:
    """Load a YAML and choose its judges, or the named one; raises `ConfigError` with all problems, and `UsageError`.

    Nothing else that the YAML names is loaded: a judge can be tried before model, agent and tasks exist.
    """
    from astuner.settings.config.loading import load_config
    from astuner.settings.planning.chooser import Chooser
    from astuner.settings.planning.judge_choice import list_named_judges
    from astuner.settings.plugins.catalog import Catalog

    loaded = load_config(conf, overrides, None, unused=("model.path", "rollout.user_workflow"))
    config = loaded.config
    catalog = Catalog.discover(disabled=config.plugins.disabled)
    chooser = Chooser(loaded, catalog)
    found = []
    for named in list_named_judges(config.task_judge):
        chosen = named.choose(chooser)
        if chosen is not None and name in (None, named.known_as, named.spec, chosen.candidate.name):
            called = named.known_as or chosen.candidate.name
            found.append(ConfiguredJudge(name=called, candidate=chosen.candidate, options=chosen.options))
    chooser.finish()
    if not found:
        wanted = "" if name is None else f" '{name}'"
        there = ", ".join(repr(one.known_as or one.spec) for one in list_named_judges(config.task_judge)) or "none"
        raise UsageError(f"{conf}: no judge{wanted} in astuner.task_judge; there is: {there}. Name one by task_judge.judge_type")
    info = RunInfo(
        project_name=config.project_name,
        experiment_name=config.experiment_name,
        backbone=config.backbone,
        directory=Path(config.experiment_dir),
        config_dir=loaded.path.parent,
        seed=config.seed,
        # No run: a judge that is only tried writes nothing into a run directory.
        attempt=0,
        config=config,
        user_keys=loaded.user_keys,
        conf=loaded.path,
        overrides=loaded.overrides,
    )
    return JudgeSetup(judges=tuple(found), run_info=info, loaded=loaded, catalog=catalog)
