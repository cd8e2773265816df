"""What may change between the attempts of one run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from astuner.config.places import ROOT, format_path
from astuner.errors import ConfigError, Problem
from astuner.runs.directory import RunDirectory

if TYPE_CHECKING:
    from astuner.planning.plan import Plan

LLM_LIMITS = (
    "concurrency",
    "max_retries",
    "timeout_s",
    "max_requests",
    "max_total_tokens",
    "max_cost",
    "prompt_price",
    "completion_price",
    "cache",
)
"""How long and how dearly an LLM is asked, and not what: a run that a limit has ended goes on with a higher one."""

MAY_CHANGE = (
    "project_name",
    "experiment_dir",
    "trainer_common.total_epochs",
    "trainer_common.total_training_steps",
    "trainer_common.save_freq",
    "trainer_common.test_freq",
    "trainer_common.max_checkpoints_to_keep",
    "trainer_common.logger",
    "rollout.max_env_worker",
    "rollout.episode_timeout_s",
    "rollout.llm_timeout_s",
    "rollout.max_retries",
    "rollout.failure_budget",
    "rollout.isolation",
    "gateway.*",
    "services.*",
    "plugins.*",
    "debug.*",
    *(f"task_judge.*llm.{name}" for name in LLM_LIMITS),
    *(f"task_reader.*llm.{name}" for name in LLM_LIMITS),
)
"""Keys that do not change what is learnt from the same episodes; the reference in `docs/configuration.md` lists them."""


LENGTH = ("trainer_common.total_epochs", "trainer_common.total_training_steps")
"""Keys that say how long a run is; a finished run goes on when one of them has grown."""


def same_length(directory: RunDirectory, plan: Plan) -> bool:
    """Whether the run is configured to be as long as it was when it was last started."""
    return not any(_in_section(key) in LENGTH for key, _, _ in _changes(*_configured(directory, plan)))


def check_same_run(directory: RunDirectory, plan: Plan) -> None:
    """Raise `ConfigError` naming every key that has another value than when the run was started and may not change."""
    problems = [
        Problem(
            key=key,
            message=f"was {before!r} when {directory.path.name} was started and is {now!r} now; a resumed run "
            "keeps it. Put it back, or start a new run with another experiment_name",
        )
        for key, before, now in sorted(_changes(*_configured(directory, plan)), key=itemgetter(0))
        if not _may_change(_in_section(key))
    ]
    if problems:
        raise ConfigError(problems)


def _in_section(key: str) -> str:
    return key.removeprefix(f"{ROOT}.")


def _may_change(key: str) -> bool:
    # What is said of a list is said of its items too.
    return any(fnmatch(place, may) for may in MAY_CHANGE for place in (key, key.partition("[")[0]))


def _configured(directory: RunDirectory, plan: Plan) -> tuple[Any, Any]:
    """Return the resolved configuration of the last start and of this one."""
    import yaml

    from astuner.config.show import to_yaml

    now = yaml.safe_load(to_yaml(plan.loaded))
    path = directory.path / "config.yaml"
    # Without the file the last start came no further than its lock.
    return (yaml.safe_load(path.read_text(encoding="utf-8"))["resolved"] if path.exists() else now), now


def _changes(before: Any, now: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield each key that has another value, with both, down through sections and through lists that are as long as before."""
    if isinstance(before, Mapping | None) and isinstance(now, Mapping | None):
        # A section that is not there has none of its keys.
        old, new = before or {}, now or {}
        for key in old.keys() | new.keys():
            yield from _changes(old.get(key), new.get(key), format_path([key], path))
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for position, (one, other) in enumerate(zip(before, now, strict=True)):
            yield from _changes(one, other, format_path([position], path))
    elif before != now:
        yield path, before, now
