"""What may change between the attempts of one run."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

from astuner.errors import ConfigError, Problem
from astuner.runs.directory import RunDirectory

if TYPE_CHECKING:
    from astuner.runs.plan import Plan

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
    before, now = _configured(directory, plan)
    return all(before.get(f"astuner.{key}") == now.get(f"astuner.{key}") for key in LENGTH)


def check_same_run(directory: RunDirectory, plan: Plan) -> None:
    """Raise `ConfigError` naming every key that has another value than when the run was started and may not change."""
    before, now = _configured(directory, plan)
    problems = [
        Problem(
            key=key,
            message=f"was {before.get(key)!r} when {directory.path.name} was started and is {now.get(key)!r} now; a resumed run "
            "keeps it. Put it back, or start a new run with another experiment_name",
        )
        for key in sorted(before.keys() | now.keys())
        if before.get(key) != now.get(key) and not any(fnmatch(key.removeprefix("astuner."), may) for may in MAY_CHANGE)
    ]
    if problems:
        raise ConfigError(problems)


def _configured(directory: RunDirectory, plan: Plan) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the resolved configuration of the last start and of this one, flat."""
    import yaml

    from astuner.config.show import to_yaml

    now = _flat(yaml.safe_load(to_yaml(plan.loaded)))
    path = directory.path / "config.yaml"
    # Without the file the last start came no further than its lock.
    return (_flat(yaml.safe_load(path.read_text(encoding="utf-8"))["resolved"]) if path.exists() else now), now


def _flat(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in data.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping):
            found.update(_flat(value, f"{path}."))
        else:
            found[path] = value
    return found
